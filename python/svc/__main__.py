import sys

from svc.laptop.cli import main

sys.exit(main())
