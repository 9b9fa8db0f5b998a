"""The page in a real browser: Chromium of the system, driven by Selenium. Without them these tests are skipped."""

import base64
import json
import os
import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.viewer.datasets import hostile, mixture, photos
from webdataset.index import Description, ShardEntry, build_index, save_index, write_description
from webdataset.testing import make_shard
from webdataset.viewer import ViewServer

selenium = pytest.importorskip("selenium", reason="tests in a browser need selenium")
pytest.importorskip("av", reason="the film is made by PyAV")
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    not CHROMIUM or not DRIVER, reason="no chromium and chromedriver: apt-get install chromium chromium-driver"
)
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --mute-audio --disable-dev-shm-usage"
)
# Screenshots for the documentation are written where this variable says.
SHOTS = os.environ.get("WDS_VIEW_SCREENSHOTS")


class Page:
    """A browser with the page in it."""

    def __init__(self, driver):
        self.driver = driver

    def wait(self, script, *arguments):
        """Wait until a script returns something true, and return it."""
        return WebDriverWait(self.driver, 60, 0.05).until(lambda driver: driver.execute_script(script, *arguments))

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def find(self, css):
        return self.driver.find_element(By.CSS_SELECTOR, css)

    def press(self, *keys):
        for key in keys:
            webdriver.ActionChains(self.driver).send_keys(key).perform()

    def shot(self, name):
        """A screenshot; it must not be of one colour."""
        data = base64.b64decode(self.driver.get_screenshot_as_base64())
        assert len(data) > 4000
        if SHOTS:
            Path(SHOTS, f"{name}.png").write_bytes(data)

    def pictures(self):
        self.wait("return document.querySelectorAll('.cell img.ready').length > 3")


@contextmanager
def browsing(server, profile, size="1280,860", dark=False):
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in FLAGS.split():
        options.add_argument(flag)
    options.add_argument(f"--window-size={size}")
    options.add_argument(f"--user-data-dir={profile}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    try:
        if dark:
            features = [{"name": "prefers-color-scheme", "value": "dark"}]
            driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        driver.get(server.new_address())
        yield Page(driver)
    finally:
        driver.quit()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("view")


@pytest.fixture(scope="module")
def shards(folder):
    return [*photos(folder, shards=2, each=40), mixture(folder)]


def test_the_grid_a_sample_and_the_keyboard(shards, tmp_path):
    with ViewServer(shards) as server, browsing(server, tmp_path / "profile") as page:
        page.pictures()
        assert "token" not in page.driver.current_url
        assert page.find("#count").text == "91 samples"
        page.shot("grid")
        # Only what is in sight has elements.
        assert 12 < page.run("return document.querySelectorAll('.cell').length") < 60
        # By keyboard alone: into the grid, right, down, open, next, mark, close.
        page.run("document.getElementById('grid').focus()")
        page.press(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ENTER)
        page.wait("return document.querySelector('#sample[open] h2')?.textContent === 'photo/00002'")
        page.wait("return document.querySelector('#sample .boxes rect')")
        page.shot("sample")
        page.press(Keys.ARROW_RIGHT)
        page.wait("return document.querySelector('#sample h2')?.textContent === 'photo/00003'")
        page.press("m", Keys.ESCAPE)
        page.wait("return !document.querySelector('#sample').open && document.querySelector('.cell.marked')")
        assert page.find("#marks-export").text == "Export 1 marked"
        assert page.run("return document.activeElement.dataset.number") == "3"
        # To a key, to a shard.
        page.find("#jump").send_keys("photo/00077", Keys.ENTER)
        page.wait("return document.querySelector('.cell.focused')?.dataset.number === '77'")
        page.run("const s = document.getElementById('shard'); s.value = '1'; s.dispatchEvent(new Event('change'))")
        page.wait("return document.querySelector('.cell.focused')?.dataset.number === '40'")
        # Error cells show what happened and what to do.
        page.run("document.getElementById('grid').scrollTop = 1e9")
        page.wait("return document.querySelectorAll('.cell .problem').length >= 2")
        assert "download it instead" in page.run(
            "return [...document.querySelectorAll('.cell .problem')].map(e => e.textContent).join()"
        )
        page.shot("errors")


@pytest.mark.long
def test_filters_facets_problems_and_sql(shards, tmp_path):
    with ViewServer(shards, compare=shards[:1]) as server, browsing(server, tmp_path / "profile") as page:
        page.pictures()
        page.find("#filter").send_keys("cls == 3", Keys.ENTER)
        page.wait("return document.getElementById('filter-status').textContent === '20 of 91 samples match'")
        page.wait("return document.querySelectorAll('.cell[data-number]').length > 5")
        labels = page.run("return [...document.querySelectorAll('.cell .label')].map(e => e.textContent)")
        assert set(labels) == {"3"}
        page.run("document.querySelector('.cell').click()")
        page.wait("return document.querySelector('#sample[open] h2')?.textContent === 'photo/00003'")
        page.press(Keys.ARROW_RIGHT)
        page.wait("return document.querySelector('#sample h2')?.textContent === 'photo/00007'")
        page.press(Keys.ESCAPE)
        page.find("#filter").clear()
        page.find("#filter").send_keys("key.__class__", Keys.ENTER)
        page.wait("return document.getElementById('filter-status').textContent.includes('may not use')")
        page.find("#tab-facets").click()
        page.wait("return document.querySelector('#panel-facets .bars')")
        page.shot("facets")
        page.run("[...document.querySelectorAll('#panel-facets button')].find(b => b.title === 'cls == 7').click()")
        page.wait("return document.getElementById('filter-status').textContent === '1 of 91 samples match'")
        page.find("#tab-problems").click()
        page.find("#run-check").click()
        page.wait("return document.querySelectorAll('#check-result tbody tr').length >= 3")
        page.shot("problems")
        page.run("[...document.querySelectorAll('#check-result .link')].find(b => b.textContent === 'broken').click()")
        page.wait("return document.querySelector('#sample[open] .problem')")
        page.press(Keys.ESCAPE)
        page.find("#tab-compare").click()
        page.wait("return document.querySelectorAll('#panel-compare tbody tr').length === 51")


@pytest.mark.long
def test_players_seek(shards, tmp_path):
    with ViewServer(shards[2]) as server, browsing(server, tmp_path / "profile") as page:
        page.wait("return document.querySelectorAll('.cell .wave').length === 1")
        for key, tag, at in (("sound", "audio", 1.5), ("film", "video", 3.0)):
            page.find("#jump").clear()
            page.find("#jump").send_keys(key, Keys.ENTER)
            page.wait("return document.activeElement.textContent.includes(arguments[0])", key)
            page.press(Keys.ENTER)
            page.wait("return document.querySelector('#sample[open] h2')?.textContent === arguments[0]", key)
            page.wait("return document.querySelector(`#sample ${arguments[0]}`)?.readyState >= 1", tag)
            page.run("document.querySelector(`#sample ${arguments[0]}`).currentTime = arguments[1]", tag, at)
            page.wait(
                "const p = document.querySelector(`#sample ${arguments[0]}`); return !p.seeking && p.readyState >= 2",
                tag,
            )
            assert page.run("return document.querySelector(`#sample ${arguments[0]}`).currentTime", tag) == at
            page.shot(key)
            page.press(Keys.ESCAPE)


@pytest.mark.long
def test_sample_number_9999999(tmp_path):
    shard = make_shard(tmp_path / "a.tar", ({"__key__": f"{n:04d}", "txt": f"text {n}"} for n in range(1000)))
    save_index(build_index(shard), shard)
    entries = [ShardEntry("a.tar", 1000)] * 10_000
    (tmp_path / "all.json").write_bytes(write_description(Description(entries)))
    with ViewServer(str(tmp_path / "all.json")) as server, browsing(server, tmp_path / "profile") as page:
        page.wait("return document.getElementById('count').textContent === '10,000,000 samples'")
        for number in (9_999_999, 0, 5_000_000, 123_456):
            page.find("#jump").clear()
            page.find("#jump").send_keys(str(number), Keys.ENTER)
            page.wait("return document.querySelector('.cell.focused')?.dataset.number === arguments[0]", str(number))
            # It is in sight, and its neighbours are the right ones.
            assert page.run(
                "const c = document.querySelector('.cell.focused').getBoundingClientRect(),"
                " g = document.getElementById('grid').getBoundingClientRect();"
                "return c.top >= g.top - 1 && c.bottom <= g.bottom + 1"
            ), number
        page.run("document.getElementById('grid').focus()")
        page.press(Keys.END)
        page.wait("return document.querySelector('.cell.focused')?.dataset.number === '9999999'")


def test_a_hostile_dataset_runs_nothing_and_asks_nobody(folder, tmp_path):
    with ViewServer(hostile(tmp_path)) as server, browsing(server, tmp_path / "profile") as page:
        page.wait("return document.querySelectorAll('.cell[data-number]').length === 6")
        page.run("document.querySelector('.cell').click()")
        page.wait("return document.querySelectorAll('#sample[open] .field').length >= 9")
        page.run("document.querySelectorAll('#sample details').forEach(e => e.open = true)")
        page.press(Keys.ESCAPE)
        for tab in ("facets", "problems", "sql"):
            page.find(f"#tab-{tab}").click()
        page.wait("return document.querySelector('#panel-facets .bars')")
        page.find("#tab-problems").click()
        page.find("#run-check").click()
        page.wait("return document.querySelector('#check-result table, #check-result .good')")
        assert page.run("return window.__ran === undefined && typeof __ran === 'undefined'")
        assert page.run("return document.querySelectorAll('script').length") == 1
        assert page.run(
            "return [...document.querySelectorAll('img')].every(e => /^(http:.127|.*.api.picture)/.test(e.src))"
        )
        own = f"http://127.0.0.1:{server.port}/"
        sent = [json.loads(entry["message"])["message"] for entry in page.driver.get_log("performance")]
        sent = [each["params"] for each in sent if each["method"] == "Network.requestWillBeSent"]
        ours = [each["request"]["url"] for each in sent if each["documentURL"].startswith(own)]  # not the browser's own
        assert len(ours) > 10
        assert [url for url in ours if not url.startswith((own, "data:"))] == []


@pytest.mark.long
@pytest.mark.parametrize(("size", "dark"), [("1280,860", True), ("400,800", False), ("400,800", True)])
def test_dark_and_narrow(shards, tmp_path, size, dark):
    with ViewServer(shards) as server, browsing(server, tmp_path / "profile", size, dark) as page:
        if size.startswith("400"):
            metrics = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True}
            page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        page.pictures()
        page.shot(f"grid-{'dark' if dark else 'light'}-{size.partition(',')[0]}")
        assert page.run("return document.documentElement.scrollWidth <= window.innerWidth")
        # Text on its background: at least 4.5 to 1 (WCAG AA), for what the page's own colours make.
        assert page.run(CONTRAST) == []
        page.run("document.querySelector('.cell').click()")
        page.wait("return document.querySelector('#sample[open] .fields-list img')")
        assert page.run(CONTRAST) == []
        page.shot(f"sample-{'dark' if dark else 'light'}-{size.partition(',')[0]}")


CONTRAST = """
const light = (c) => { const [r, g, b] = c.map((v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const numbers = (text) => text.match(/[\\d.]+/g).map(Number);
const back = (e) => { for (; e; e = e.parentElement) { const c = numbers(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > 0.9) return c; } return [255, 255, 255]; };
const bad = [];
for (const e of document.querySelectorAll('h1, h2, h3, p, label, button:not(:disabled), .key, .small, .label, dt, dd, a, pre, span')) {
  if (!e.offsetParent || !e.textContent.trim() || e.closest('.badge, .picture')) continue;
  const one = light(numbers(getComputedStyle(e).color).slice(0, 3)), two = light(back(e).slice(0, 3));
  const ratio = (Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05);
  if (ratio < 4.5) bad.push([e.tagName, e.className, e.textContent.slice(0, 20), ratio.toFixed(2)]);
}
return bad.slice(0, 5);
"""


@pytest.mark.long
def test_roles_and_names(shards, tmp_path):
    """What a screen reader is told: every control has a name, tabs and the grid have their roles."""
    with ViewServer(shards) as server, browsing(server, tmp_path / "profile") as page:
        page.pictures()
        page.driver.execute_cdp_cmd("Accessibility.enable", {})
        nodes = page.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
        named = [
            (node["role"]["value"], node.get("name", {}).get("value", ""))
            for node in nodes
            if not node["ignored"] and node.get("role", {}).get("value")
        ]
        controls = {"button", "textbox", "combobox", "tab", "gridcell", "grid", "link"}
        assert [role for role, name in named if role in controls and not name.strip()] == []
        assert ("grid", "Samples") in named and ("tab", "Facets") in named
        assert any(role == "gridcell" and name.startswith("Sample 0, photo/00000") for role, name in named)


@pytest.mark.long
@contextmanager
def held_back(data, go_on):
    """The address of a shard on a server that sends its end when the event is set."""
    import http.server
    import threading

    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def do_HEAD(self):
            self.answer(body=False)

        def do_GET(self):
            self.answer(body=True)

        def answer(self, body):
            if not self.path.endswith(".tar"):
                self.send_response(404)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            asked = self.headers.get("Range")
            first, last = 0, len(data) - 1
            if asked:
                start, _, stop = asked.removeprefix("bytes=").partition("-")
                first, last = int(start), int(stop) if stop else last
            self.send_response(206 if asked else 200)
            self.send_header("Content-Length", str(last - first + 1))
            self.send_header("ETag", '"1"')
            self.send_header("Accept-Ranges", "bytes")
            if asked:
                self.send_header("Content-Range", f"bytes {first}-{last}/{len(data)}")
            self.end_headers()
            if not body:
                return
            try:
                held = len(data) - 20_000
                self.wfile.write(data[first : min(last + 1, held)] if last >= held else data[first : last + 1])
                if last >= held:
                    self.wfile.flush()
                    go_on.wait(60)
                    self.wfile.write(data[max(first, held) : last + 1])
            except OSError:
                pass

    remote = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=remote.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{remote.server_port}/train.tar"
    finally:
        go_on.set()
        remote.shutdown()
        remote.server_close()
        thread.join()


def test_the_first_page_shows_while_the_index_is_learned(tmp_path):
    """A remote shard without an index: its end is held back until the first pictures are seen."""
    import threading

    [shard] = photos(tmp_path, shards=1, each=300)
    go_on = threading.Event()
    with (
        held_back(Path(shard).read_bytes(), go_on) as url,
        ViewServer(url) as server,
        browsing(server, tmp_path / "profile") as page,
    ):
        page.pictures()
        assert not page.run("return document.getElementById('learning').hidden")
        assert page.find("#count").text == "200 samples so far"
        page.shot("learning")
        go_on.set()
        page.wait("return document.getElementById('count').textContent === '300 samples'")
        page.wait("return document.getElementById('learning').hidden")
