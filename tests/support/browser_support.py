"""A real Chromium without a window, and what it makes of a page."""

from __future__ import annotations

import base64
import contextlib
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.image import imread
from numpy.typing import NDArray
from selenium.webdriver import Chrome, ChromeOptions, ChromeService
from selenium.webdriver.support.wait import WebDriverWait

import needs

MISSING = (
    "{} is not on PATH, the checks in a browser did not run. On Debian `scripts/chromium` prints a folder "
    "that has it; elsewhere: https://www.chromium.org"
)
PATIENCE_SECONDS = 120


@dataclass(frozen=True)
class Look:
    """A page as it was shown.

    Attributes:
        width: of all its content, in CSS pixels; what is wider than the window has to be scrolled.
        errors: what the console has as an error.
        requests: the addresses that it asked for, its own left out.
        milliseconds: from the start of the navigation to the end of the load event.
        pixels: the whole page, f32 [height, width, RGB] in 0 to 1.
    """

    width: int
    errors: list[str]
    requests: list[str]
    milliseconds: float
    pixels: NDArray[np.float32]


class Browser:
    """A Chromium that shows one page after the other."""

    def __init__(self, driver: Chrome) -> None:
        self._driver = driver

    def look(self, page: Path, width: int, scheme: str) -> Look:
        """Open a file in a window of `width` CSS pixels, for one who prefers a light or dark `scheme`."""
        self.resize(width)
        self._command(
            "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}]
        )
        for log in ("browser", "performance"):
            self._driver.get_log(log)  # what is read is gone: the page before
        self._driver.get(page.as_uri())
        console = self._driver.get_log("browser")
        return Look(
            width=self.ask("return document.scrollingElement.scrollWidth"),
            errors=[entry["message"] for entry in console if entry["level"] == "SEVERE"],
            requests=[url for url in self._requests() if url != page.as_uri()],
            milliseconds=self.ask("return performance.getEntriesByType('navigation')[0].loadEventEnd"),
            pixels=self._picture(),
        )

    def open(self, address: str, width: int) -> None:
        """Open an address in a window of `width` CSS pixels."""
        self.resize(width)
        self._driver.get(address)

    def resize(self, width: int) -> None:
        """Give the window a width in CSS pixels. A page that is open is laid out anew, not loaded again."""
        metrics = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600}
        self._command("Emulation.setDeviceMetricsOverride", **metrics)

    @contextlib.contextmanager
    def without(self, addresses: str) -> Iterator[None]:
        """Pages get no answer from these addresses, of which * is any part, while the block runs."""
        self._command("Network.enable")
        self._command("Network.setBlockedURLs", urls=[addresses])
        try:
            yield
        finally:
            self._command("Network.setBlockedURLs", urls=[])

    def ask(self, script: str) -> Any:
        """What a JavaScript function of this body returns in the page."""
        return self._driver.execute_script(script)

    def wait_for(self, script: str) -> Any:
        """What a JavaScript function of this body returns, once that is true in JavaScript's sense."""
        return WebDriverWait(self._driver, PATIENCE_SECONDS).until(
            lambda driver: driver.execute_script(script)
        )

    def _requests(self) -> list[str]:
        events = [json.loads(entry["message"])["message"] for entry in self._driver.get_log("performance")]
        sent = [
            event["params"]["request"] for event in events if event["method"] == "Network.requestWillBeSent"
        ]
        return [request["url"] for request in sent]

    def _picture(self) -> NDArray[np.float32]:
        size = self._command("Page.getLayoutMetrics")["cssContentSize"]
        shot = self._command("Page.captureScreenshot", captureBeyondViewport=True, clip={**size, "scale": 1})
        return imread(io.BytesIO(base64.b64decode(shot["data"])))[:, :, :3]

    def _command(self, name: str, **parameters: Any) -> dict[str, Any]:
        found: dict[str, Any] = self._driver.execute_cdp_cmd(name, parameters)
        return found


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    """A Chromium while the block runs; without one the test is skipped, or fails where
    NITRO_REQUIRE_CHROMIUM=1.
    """
    options = ChromeOptions()
    options.binary_location = _find("chromium")
    # Its sandbox wants rights that a container or root does not have; the pages are our own.
    for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = Chrome(options, ChromeService(_find("chromedriver")))
    try:
        driver.set_page_load_timeout(PATIENCE_SECONDS)
        driver.set_script_timeout(PATIENCE_SECONDS)
        yield Browser(driver)
    finally:
        driver.quit()


def _find(program: str) -> str:
    return needs.program(program, MISSING.format(program), "NITRO_REQUIRE_CHROMIUM")
