# SPDX-License-Identifier: Apache-2.0
"""A network behind HTTP: POST a 28x28 picture (784 bytes, or a PGM file), get JSON. Threads serve at once; the model gives up the GIL while it runs.

usage: web_service.py MODEL.so [PORT]      prints the port on which it listens
"""
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np

import tccc


def serve(path, port):
    model = tccc.load(path, threads=1)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            data = self.rfile.read(min(int(self.headers.get("Content-Length", 0)), 1 << 16))
            if len(data) < 784:
                return self.answer(400, {"error": f"expected 784 bytes, got {len(data)}"})
            try:
                p = model(np.frombuffer(data[-784:], np.uint8).reshape(1, 1, 28, 28).astype(np.float32) / 255)[0]
            except tccc.Error as e:
                return self.answer(500, {"error": str(e), "status": e.status})
            self.answer(200, {"label": int(p.argmax()), "probability": float(p.max())})

        def answer(self, code, value):
            text = json.dumps(value).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *args):
            pass
    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0)
