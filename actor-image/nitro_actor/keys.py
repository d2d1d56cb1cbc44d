"""Names of the Redis keys that one training run uses. All of them start with `prefix(run)`."""


def prefix(run: str) -> str:
    """What every key of the run starts with; the ACL of a job's Redis users is this plus `*`."""
    return f"nitro:{run}:"


def weights(run: str, version: int) -> str:
    """STRING: the weights container of one version."""
    return f"{prefix(run)}weights:{version}"


def round_fragments(run: str, round_index: int) -> str:
    """LIST: the fragments of one round, in the order in which they arrived."""
    return f"{prefix(run)}round:{round_index}"


def working(fragments: str, slot: int) -> str:
    """LIST: exists while an actor works on a slot whose fragment goes to the list `fragments`."""
    return f"{fragments}:working:{slot}"


def over(fragments: str) -> str:
    """STRING: exists for a while after the learner has stopped to take from the list `fragments`."""
    return f"{fragments}:over"


def evaluation(run: str, version: int) -> str:
    """LIST: the evaluation fragments of one weights version."""
    return f"{prefix(run)}evaluation:{version}"
