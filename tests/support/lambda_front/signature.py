"""Whether a request is signed as AWS wants it, computed by botocore from what arrived."""

import re

from aiohttp import web
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

_FORM = re.compile(
    r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/([^/]+)/aws4_request, "
    r"SignedHeaders=([a-z0-9;-]+), Signature=([0-9a-f]{64})"
)


def check_signature(request: web.Request, body: bytes, secret_key: str) -> None:
    """Raises PermissionError where the signature is not that of the secret key."""
    found = _FORM.fullmatch(request.headers.get("Authorization", ""))
    if found is None:
        raise PermissionError("The request is not signed.")
    access_key, _, region, service, names, signature = found.groups()
    missing = [
        name.lower()
        for name in request.headers
        if name.lower().startswith("x-amz-") and name.lower() not in names.split(";")
    ]
    if missing:
        raise PermissionError(f"These headers are not signed: {missing}")
    headers = {name: request.headers[name] for name in names.split(";") if name != "host"}
    copy = AWSRequest("POST", str(request.url), headers=headers, data=body)
    copy.context["timestamp"] = request.headers["X-Amz-Date"]
    signer = SigV4Auth(Credentials(access_key, secret_key), service, region)
    canonical = signer.canonical_request(copy)
    if signer.signature(signer.string_to_sign(copy, canonical), copy) != signature:
        raise PermissionError(
            "The request signature we calculated does not match the signature you provided."
        )
