#!/bin/sh
# Puts the reference page's files where wrangler serves assets from; only those that the page names.
set -eu
from=node_modules/swagger-ui-dist
to=build/edge-assets/docs/assets
mkdir -p "$to"
cp "$from/swagger-ui.css" "$from/swagger-ui-bundle.js" "$from/favicon-32x32.png" "$to/"
