#!/bin/sh
# The user exists before the files that belong to its group. It is never removed: a later user of its number would own what
# it has left.
set -e
getent passwd linkforge >/dev/null ||
  useradd --system --user-group --home-dir /var/lib/linkforge --no-create-home --shell /usr/sbin/nologin linkforge
