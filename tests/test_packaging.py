"""What is installed is what is in the checkout."""

import ast
import configparser
import re
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

from setuptools import find_packages

ROOT = Path(__file__).resolve().parents[1]


def setup_cfg():
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    return parser


def test_setup_cfg_lists_every_package():
    # A package that is not listed would be missing from the wheel without a word.
    packages = set(find_packages(ROOT, include=["albert_keras*"]))
    packages |= {f"albert_keras.export.{name}" for name in find_packages(ROOT / "export")}
    assert set(setup_cfg()["options"]["packages"].split()) == packages


def test_setup_cfg_lists_every_file_that_is_no_module():
    listed = {
        (package, name.strip())
        for package, names in setup_cfg()["options.package_data"].items()
        for name in names.split(",")
    }
    found = {
        (".".join(["albert_keras", *path.parent.relative_to(ROOT).parts]), path.name)
        for path in (ROOT / "export").rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc")
    }
    assert listed == found


def test_the_folder_export_is_installed_as_albert_keras_export():
    assert setup_cfg()["options"]["package_dir"].split() == ["albert_keras.export", "=", "export"]


def test_the_stand_in_offers_the_names_of_the_installed_package():
    def public_names(path):
        return [
            ast.literal_eval(node.value)
            for node in ast.parse(path.read_text()).body
            if isinstance(node, ast.Assign) and node.targets[0].id == "__all__"
        ]

    installed = public_names(ROOT / "export" / "__init__.py")
    assert installed == public_names(ROOT / "albert_keras" / "export" / "__init__.py") != []


def test_the_stand_in_leads_to_the_folder_export():
    import albert_keras.export
    from albert_keras.export import self_check

    assert Path(self_check.__file__) == ROOT / "export" / "self_check.py"
    assert albert_keras.export.export_saved_model.__module__ == "albert_keras.export.saved_model"


# What these import is of an extra; nothing imports them before it is asked for.
EXTRAS = {
    "albert_keras/data/beam.py": "beam",
    "albert_keras/report/axes.py": "plots",
    "export/edge": "edge",
    "export/server": "serve",
}


def test_every_library_that_is_imported_is_declared():
    # What another library happens to bring may leave with its next release.
    def names_in(section, option):
        lines = setup_cfg()[section][option].split("\n")
        requirements = (re.match(r"[\w-]+", line).group() for line in lines if line)
        return {name.lower().replace("_", "-") for name in requirements}

    of = packages_distributions()  # {name to import: [distributions]}
    own = {"albert_keras", *sys.stdlib_module_names}
    checked = set()
    for folder in ("albert_keras", "export"):
        for path in (ROOT / folder).rglob("*.py"):
            declared = names_in("options", "install_requires")
            for part, extra in EXTRAS.items():
                if path.is_relative_to(ROOT / part):
                    declared |= names_in("options.extras_require", extra)
            imported = set()
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Import):
                    imported |= {alias.name.split(".")[0] for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and not node.level:
                    imported.add(node.module.split(".")[0])
            for module in imported - own:
                if module == "google":  # of protobuf, and of others that share the name
                    distributions = {"protobuf"}
                elif module not in of:  # an extra that is not installed here, named as its module
                    distributions = {module.replace("_", "-")}
                else:
                    distributions = {name.lower().replace("_", "-") for name in of[module]}
                assert distributions & declared, (path, module)
                checked.add(module)
    assert {"h5py", "tensorflow", "starlette"} <= checked


def test_siblings_in_export_are_imported_relatively():
    # `import albert_keras.export.x` from inside would make a checkout and an install differ.
    for path in (ROOT / "export").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and not node.level:
                assert not (node.module or "").startswith("albert_keras.export"), path


def test_the_version_can_be_read_without_importing_anything():
    # `version = attr:` imports the package when it finds no literal, and a build has no TensorFlow.
    assert setup_cfg()["metadata"]["version"] == "attr: albert_keras.__version__"
    [version] = [
        node.value.value
        for node in ast.parse((ROOT / "albert_keras" / "__init__.py").read_text()).body
        if isinstance(node, ast.Assign) and node.targets[0].id == "__version__"
    ]
    assert version.count(".") == 2
