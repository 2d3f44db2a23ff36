#!/bin/sh
# The Gemini CLI with its own traces, in an empty folder: ./capture.sh coding "Sum up notes.txt and missing.txt."
set -eu
scenario=$1 text=$2 stub=${STUB:-http://127.0.0.1:21500} here=$(cd "$(dirname "$0")" && pwd)
home=$(mktemp -d) && mkdir -p "$home/.gemini" "$home/work" && echo "hello notes" > "$home/work/notes.txt"
cat > "$home/.gemini/settings.json" <<SETTINGS
{"telemetry": {"enabled": true, "target": "local", "otlpEndpoint": "$stub", "otlpProtocol": "http", "logPrompts": true, "traces": true},
 "security": {"auth": {"selectedType": "gemini-api-key"}}, "privacy": {"usageStatisticsEnabled": false}}
SETTINGS
curl -s "$stub/stub/begin" -d "{\"producer\": \"gemini-cli\", \"scenario\": \"$scenario\", \"versions\": {\"@google/gemini-cli\": \"0.61.0\"}}" > /dev/null
curl -s "$stub/stub/run" -d '{}' > /dev/null
(cd "$home/work" && HOME=$home GEMINI_API_KEY=none GOOGLE_GEMINI_BASE_URL=$stub GEMINI_CLI_TRUST_WORKSPACE=true \
  "$here/node_modules/.bin/gemini" -m gemini-2.5-flash --yolo -p "$text")
curl -s "$stub/stub/end" -d '{}'
rm -rf "$home"
