"""Stands in for `docker` where there is none: its server answers what `fake.json` says.

Called as `fake_docker.py FOLDER run|logs|inspect|rm ...`; it keeps its files in FOLDER.
"""

import json
import os
import signal
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path


def serve(folder, port):
    fake = json.loads((folder / "fake.json").read_text())
    asked = {}

    class Handler(BaseHTTPRequestHandler):
        def send(self, status, body):
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body.encode())

        def do_GET(self):
            if self.path == "/monitoring/prometheus/metrics":
                self.send(200, fake.get("metrics", ":tensorflow:serving:request_count 3"))
            else:
                name = self.path.removeprefix("/v1/models/")
                assert name in fake["answers"]
                # Ready when it is asked for the second time.
                state = "AVAILABLE" if name in asked else "LOADING"
                asked.setdefault(name, {})
                self.send(200, json.dumps({"model_version_status": [{"state": state}]}))

        def do_POST(self):
            name = self.path.removeprefix("/v1/models/").removesuffix(":predict")
            body = self.rfile.read(int(self.headers["Content-Length"]))
            asked[name] = json.loads(body)
            (folder / "asked.json").write_text(json.dumps(asked))
            answer = fake["answers"][name]
            if answer is None:
                self.send(400, json.dumps({"error": "refused"}))
            else:
                self.send(200, json.dumps({"predictions": answer}))

        def log_message(self, *arguments):
            pass

    HTTPServer(("127.0.0.1", port), Handler).serve_forever()


def main(folder, command, *arguments):
    folder = Path(folder)
    if command == "serve":
        serve(folder, int(arguments[0]))
    with (folder / "calls.txt").open("a") as calls:
        calls.write(f"{command} {json.dumps(arguments)}\n")
    if command == "run":
        with (folder / "run.txt").open("a") as file:
            file.write(f"run {json.dumps(arguments)}\n")
        if json.loads((folder / "fake.json").read_text()).get("ends"):
            return
        published = arguments[arguments.index("--publish") + 1]
        port = published.removeprefix("127.0.0.1:").removesuffix(":8501")
        server = subprocess.Popen(
            [sys.executable, "-P", __file__, str(folder), "serve", port],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        (folder / "pid").write_text(str(server.pid))
    elif command == "inspect":
        print("true" if (folder / "pid").exists() else "false")
    elif command == "logs":
        print("the log of the server", file=sys.stderr)
    elif command == "rm" and (folder / "pid").exists():
        os.kill(int((folder / "pid").read_text()), signal.SIGTERM)
        (folder / "pid").unlink()


if __name__ == "__main__":
    main(*sys.argv[1:])
