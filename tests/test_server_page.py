"""The page of the development server, in a real browser: headless Chromium, where there is one."""

import shutil

import pytest

pytest.importorskip("starlette", reason="needs the extra `serve`")
playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright and a Chromium")

from albert_keras.export.server import Limits, Models  # noqa: E402

from tests import served_models  # noqa: E402
from tests.running_server import RunningServer  # noqa: E402

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
HOSTILE = "<img src=x onerror=\"document.title='caught'\"><script>document.title='caught'</script>"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    for name, save in {
        "mail": served_models.save_labels,
        "ask": served_models.save_answers,
        "exam": served_models.save_choices,
        "masks": served_models.save_masks,
        "<b>wide & 100%": served_models.save_wide,
    }.items():
        save(folder / name / "1")
    served_models.save_labels(folder / "mail" / "2", scale=0.01)
    models = Models(sorted(folder.iterdir()))
    running = RunningServer(models, Limits(request_bytes=10_000))
    yield running
    running.stop()


@pytest.fixture(scope="module")
def browser():
    installed = next(filter(None, map(shutil.which, BROWSERS)), None)
    with playwright.sync_playwright() as driver:
        try:
            browser = driver.chromium.launch(executable_path=installed, args=["--no-sandbox"])
        except playwright.Error as error:
            pytest.skip(f"no Chromium can be started: {str(error).splitlines()[0]}")
        yield browser
        browser.close()


class Page:
    """The page as a person sees it: by its labels."""

    def __init__(self, browser, address, **context):
        self.page = browser.new_page(**context)
        self.page.set_default_timeout(20_000)
        self.asked_for, self.errors = [], []
        self.page.on("request", lambda request: self.asked_for.append(request.url))
        self.page.on("console", lambda line: self.errors.append(line.text))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.goto(address)
        self.page.wait_for_selector("[data-input]")

    def choose(self, label, option):
        self.page.get_by_label(label, exact=True).select_option(label=option)

    def ask(self, **texts):
        for label, text in texts.items():
            self.page.get_by_label(label.replace("_", " "), exact=True).fill(text)
        with self.page.expect_response("**:predict"):
            self.page.get_by_role("button", name="Ask").click()
        self.page.wait_for_selector("#ask:not([disabled])")

    def texts(self, selector):
        return self.page.locator(selector).all_text_contents()

    def rows(self):
        return [
            tuple(row.locator("td").all_text_contents())
            for row in self.page.locator("#answer tr").all()
        ]


@pytest.fixture
def page(browser, server):
    page = Page(browser, f"http://127.0.0.1:{server.port}/")
    yield page
    assert page.errors == []
    assert all(url.startswith(f"http://127.0.0.1:{server.port}/") for url in page.asked_for)
    page.page.close()


def test_it_says_that_it_is_for_development(page):
    assert "for development" in page.page.inner_text("header")
    assert "TensorFlow Serving" in page.page.inner_text("header")


def test_a_text_gets_its_label_and_a_label_is_no_markup(page):
    page.choose("Model", "mail, version 1 (classify)")
    page.ask(Text="abc")
    assert page.texts("#answer .figure") == ["<b>long</b> & Straße"]
    assert page.rows() == [("<b>long</b> & Straße", "0.7500"), ("short", "0.2500")]
    assert page.page.locator("#answer b").count() == 0
    page.choose("Model", "mail, version 2 (classify)")
    assert page.texts("#answer .figure") == []  # the answer of another model has gone
    page.ask(Text="abc")
    assert page.texts("#answer .figure") == ["short"]


def test_numbers_that_json_does_not_have_are_said_and_not_shown_as_others(page):
    page.choose("Model", "mail, version 1 (classify)")
    page.ask(Text="")  # a logit of minus infinity
    assert "JSON" in page.texts("#answer .error")[0]


def test_the_newest_version_is_the_first_to_choose(page):
    options = page.page.locator("#model option").all_text_contents()
    assert options.index("mail, version 2 (classify)") + 1 == (
        options.index("mail, version 1 (classify)")
    )


@pytest.mark.parametrize(
    "before", ["", "the ", "Straße ", "\U0001f600\U0001f600 ", "e\u0301\u202e ", "a\nb\n"]
)
def test_the_answer_is_marked_in_the_context_by_its_characters(page, before):
    page.choose("Model", "ask, version 1 (answer)")
    page.ask(Question="f\U0001f98ax", Context=f"{before}f\U0001f98ax jumps")
    assert page.texts("#answer .figure") == ["f\U0001f98ax"]
    assert page.texts("#answer mark") == ["f\U0001f98ax"]
    assert page.texts("#answer .context") == [f"{before}f\U0001f98ax jumps"]
    assert page.rows()[0] == ("f\U0001f98ax", "0.7500")


def test_without_an_answer_nothing_is_marked(page):
    page.choose("Model", "ask, version 1 (answer)")
    page.ask(Question="cow", Context="the fox")
    assert page.texts("#answer .figure") == ["No answer in the context"]
    assert page.page.locator("mark").count() == 0
    assert page.rows() == [("Null score", "1.0000")]


def test_what_is_typed_is_never_run(page):
    page.choose("Model", "ask, version 1 (answer)")
    page.ask(Question=HOSTILE, Context=f"a {HOSTILE} b")
    assert page.texts("#answer mark") == [HOSTILE]
    assert page.page.locator("#answer img, #answer script").count() == 0
    assert page.page.title() == "albert-keras serve"


def test_a_lone_surrogate_becomes_one_character(page):
    page.choose("Model", "ask, version 1 (answer)")
    page.page.evaluate("document.getElementById('input-context').value = 'x\\ud83d the fox'")
    page.ask(Question="fox")
    assert page.texts("#answer mark") == ["fox"]
    assert page.texts("#answer .context") == ["x\ufffd the fox"]


def test_options_stand_one_a_line(page):
    page.choose("Model", "exam, version 1 (choose)")
    page.page.get_by_label("Options, one a line").fill("a\n\nbbb\n")
    page.ask(Context="c", Question="q")
    assert page.texts("#answer .figure") == ["bbb"]
    assert page.rows() == [("a", "0.2500"), ("bbb", "0.7500")]
    assert page.texts("#answer .best td:first-child") == ["bbb"]


def test_masks_are_filled_and_another_signature_can_be_chosen(page):
    page.choose("Model", "masks, version 1 (pretrainer)")
    page.ask(Text="the [MASK] and the [MASK]")
    assert page.texts("#answer caption") == ["Mask 1", "Mask 2"]
    assert page.rows() == 2 * [("sea", "0.7500"), ("land", "0.2500")]
    page.choose("Signature", "coherence")
    page.ask(First_text="a", Second_text="bb")
    assert page.texts("#answer .figure") == ["0.8750"]


def test_a_refusal_of_the_server_is_shown(page):
    page.choose("Model", "mail, version 1 (classify)")
    page.ask(Text="a" * 20_000)
    [error] = page.texts("#answer .error")
    assert "10,000 bytes" in error
    assert page.errors.pop().startswith("Failed to load resource: the server responded with")


def test_a_model_of_no_kind_and_with_a_hostile_name_can_be_asked(page):
    page.choose("Model", "<b>wide & 100%, version 1")
    page.choose("Signature", "more")
    page.ask(Text="abc")
    assert '"one more"' in page.page.inner_text("#answer pre")


def test_every_control_has_a_label_and_the_keyboard_is_enough(page):
    page.choose("Model", "ask, version 1 (answer)")
    labels = page.page.eval_on_selector_all(
        "select:not([hidden] *), textarea", "all => all.map(one => one.labels.length)"
    )
    assert labels == [1, 1, 1]
    page.page.get_by_label("Question").focus()
    page.page.keyboard.type("fox")
    page.page.keyboard.press("Tab")
    page.page.keyboard.type("the fox")
    page.page.keyboard.press("Tab")
    with page.page.expect_response("**:predict"):
        page.page.keyboard.press("Enter")
    page.page.wait_for_selector("#answer mark")
    assert page.page.locator("#answer").get_attribute("aria-live") == "polite"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone_nothing_is_wider_than_the_screen(browser, server, scheme):
    page = Page(
        browser,
        f"http://127.0.0.1:{server.port}/",
        viewport={"width": 320, "height": 600},
        color_scheme=scheme,
    )
    page.choose("Model", "ask, version 1 (answer)")
    page.ask(Question="b" * 60, Context="a" * 500 + "b" * 60)
    assert page.page.evaluate("document.documentElement.scrollWidth") <= 320
    paper = page.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == {"light": "rgb(255, 255, 255)", "dark": "rgb(21, 24, 28)"}[scheme]
    page.page.close()


def test_a_server_that_has_gone_is_said(browser, tmp_path):
    served_models.save_labels(tmp_path / "mail" / "1")
    server = RunningServer(Models([tmp_path / "mail"]), Limits())
    page = Page(browser, f"http://127.0.0.1:{server.port}/")
    server.stop()
    page.page.get_by_label("Text").fill("a")
    page.page.get_by_role("button", name="Ask").click()
    page.page.wait_for_selector("#answer .error")
    assert page.texts("#answer .error")[0].startswith("No answer from the server")
    page.page.close()


def test_the_browser_may_load_and_run_nothing_else(server):
    _, headers, body = server.ask("GET", "/")
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy and "connect-src 'self'" in policy
    assert "unsafe" not in policy
    page = body.decode()
    assert "innerHTML" not in page and "http://" not in page and "https://" not in page
