"""`python -m appfunctions_host` is `appfunctions-host`."""

from appfunctions_host.cli import run

if __name__ == "__main__":
    run()
