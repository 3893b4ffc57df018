# SPDX-License-Identifier: BSD-3-Clause
"""The notebooks: each runs from its first cell to its last, shows what its words promise, and stands there with its output.

usage: notebooks.py SOURCE_DIR PROGRAM [NAME...]        notebooks.py SOURCE_DIR PROGRAM --store [NAME...]: writes the outputs
"""
import os
import re
import sys
import tempfile
import time
from pathlib import Path

source, program = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
sys.path.insert(0, str(source / "python"))
os.environ["TESSERA"] = str(program)
os.environ["PYTHONPATH"] = str(source / "python")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # the kernel's threads wait while runs compute
try:
    import ipykernel  # noqa: F401
    import matplotlib  # noqa: F401
    import nbformat
    import pandas  # noqa: F401
    import scipy  # noqa: F401
    import skimage  # noqa: F401
    from jupyter_client import AsyncKernelManager
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError
    import tessera
except ImportError as missing:
    print(f"skipped: {missing} (the packages come from .venv; run jobs/setup.sh)")
    sys.exit(77)
try:
    tessera.operator("identity", (4, 4))
except tessera.Error as missing:
    print(f"skipped: {missing}")  # the module was not built
    sys.exit(77)

MOST_BYTES = 300_000
# What a last cell finds in the variables of each.
HOLDS = {
    "first_picture": ["psnr(result.image) > psnr(measured) + 3", "0.7 < result.summary['chi2'] < 1.1", "not result.warnings"],
    "microscope_stack": ["error(result.image - 100) < 0.75 * error(stack - 100.0)", "result.image.shape == shape", "not result.warnings"],
    "scan_to_slices": ["error(second.image) < 0.95 * error(first.image)", "not second.warnings",
                       "abs(float(second.notices[0].split(' right of')[0].split()[-1]) - axis) < 0.2"],
    "your_own": ["A.dot_test() < 1e-12", "psnr(squares) < psnr(measured)", "psnr(own.image) > psnr(measured) + 2",
                 "psnr(network.image) > psnr(own.image) + 2", "len(short.history) < len(network.history)"],
    "scaling": ["difference < 1e-5", "table['MB per rank'][2] < table['MB per rank'][1]", "table['MB sent per iteration'][2] > 0",
                "list(spent.index) == ['1 rank', '2 ranks']", "prediction['seconds'].is_monotonic_decreasing"],
}


def texts(cell):
    """What a cell shows as text, of each output."""
    for output in cell.get("outputs", []):
        if output.output_type == "stream":
            yield output.text
        elif output.output_type == "error":
            yield "\n".join(output.traceback)
        else:
            yield from (text for kind, text in output.data.items() if kind.startswith("text/"))


def stored_complaints(path):
    """Of the file as it is committed: it was run from top to bottom, and nothing tells where, or at what time."""
    notebook = nbformat.read(path, 4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    complaints = []
    if [cell.execution_count for cell in code] != list(range(1, len(code) + 1)):
        complaints.append("its cells were not run in order (a reader sees no output, or another one)")
    if path.stat().st_size > MOST_BYTES:
        complaints.append(f"it has {path.stat().st_size} bytes ({MOST_BYTES} at most) make its pictures smaller")
    if not any("image/png" in output.get("data", {}) for cell in code for output in cell.outputs):
        complaints.append("it shows no picture")
    for text in (text for cell in code for text in texts(cell)):
        for found in re.findall(r"(?<![\w.])/(?:tmp|home|root|work|usr|var|opt|build)/[^\s'\"<]*|\b\d\d:\d\d:\d\d\b|\b20\d\d-\d\d-\d\d\b", text):
            complaints.append(f"an output names {found} (a place or time of the machine that ran it)")
    if any(output.output_type == "error" or output.get("name") == "stderr" for cell in code for output in cell.outputs):
        complaints.append("an output is an error or a warning")
    return [f"notebooks/{path.name}: {complaint} run tests/python/notebooks.py SOURCE_DIR PROGRAM --store" for complaint in complaints]


def execute(path, holds):
    """Its cells, and then what must hold, in a kernel whose folder is empty. Returns what does not, and the notebook."""
    notebook = nbformat.read(path, 4)
    cells = len(notebook.cells)
    notebook.cells += [nbformat.v4.new_code_cell(f"assert {words}") for words in holds]
    with tempfile.TemporaryDirectory(prefix="notebook-") as folder:
        os.environ.update(IPYTHONDIR=folder, JUPYTER_RUNTIME_DIR=f"{folder}/run", JUPYTER_CONFIG_DIR=f"{folder}/config")
        os.mkdir(f"{folder}/here")
        kernel = AsyncKernelManager(kernel_name="python3", transport="ipc", ip=f"{folder}/kernel")  # no port, no other user
        client = NotebookClient(notebook, km=kernel, timeout=240, record_timing=False, resources={"metadata": {"path": f"{folder}/here"}})
        client.owns_km = True  # and ends it
        complaints = []
        try:
            client.execute()
        except CellExecutionError as error:
            said = re.sub(r"\x1b\[[\d;]*m", "", str(error)).strip()
            complaints.append(f"notebooks/{path.name}: {said}")
        left = os.listdir(f"{folder}/here")
        if left:
            complaints.append(f"notebooks/{path.name} leaves {left} in its reader's folder")
    del notebook.cells[cells:]
    return complaints, notebook


def store(path, notebook):
    notebook.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
                         "language_info": {"name": "python"}}
    for cell in notebook.cells:
        cell.metadata = {}
        for output in cell.get("outputs", []):
            output.get("data", {}).pop("text/html", None)  # a table's text says the same
            if "image/png" in output.get("data", {}):
                output.data.pop("text/plain", None)
    nbformat.write(notebook, path)


def notices_what_is_wrong(folder):
    """The checks themselves."""
    v4, path = nbformat.v4, Path(folder) / "x.ipynb"
    shown = [v4.new_output("stream", text="read /tmp/x at 12:30:01"), v4.new_output("stream", name="stderr", text="!")]
    nbformat.write(v4.new_notebook(cells=[v4.new_code_cell("1", execution_count=2, outputs=shown)]), path)
    assert len(stored_complaints(path)) == 5, stored_complaints(path)
    nbformat.write(v4.new_notebook(cells=[v4.new_code_cell("open('left', 'w').close()")]), path)
    assert len(execute(path, ["1 == 2"])[0]) == 2


def main():
    with tempfile.TemporaryDirectory(prefix="notebook-") as folder:
        notices_what_is_wrong(folder)
    words = sys.argv[3:]
    storing = "--store" in words
    named = [word for word in words if word != "--store"]
    files = sorted((source / "notebooks").glob("*.ipynb"))
    assert {file.stem for file in files} == set(HOLDS), "each notebook has a row of HOLDS, each row a notebook"
    complaints = []
    for path in files:
        if named and path.stem not in named:
            continue
        begin = time.monotonic()
        found, notebook = execute(path, HOLDS[path.stem])
        if storing and not found:
            store(path, notebook)
        complaints += found + stored_complaints(path)
        print(f"{path.stem}: {time.monotonic() - begin:.1f} s", flush=True)
    print("\n".join(complaints))
    return 1 if complaints else 0


sys.exit(main())
