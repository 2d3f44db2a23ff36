#!/bin/sh
# The Codex CLI with its own log events, in an empty folder: ./capture.sh coding "Sum up notes.txt and missing.txt."
set -eu
scenario=$1 text=$2 stub=${STUB:-http://127.0.0.1:21500} here=$(cd "$(dirname "$0")" && pwd)
home=$(mktemp -d) && mkdir -p "$home/work" && echo "hello notes" > "$home/work/notes.txt"
cat > "$home/config.toml" <<SETTINGS
model = "gpt-5"
model_provider = "stub"
approval_policy = "never"
sandbox_mode = "danger-full-access"
[model_providers.stub]
name = "stub"
base_url = "$stub/v1"
wire_api = "responses"
[analytics]
enabled = false
[otel]
environment = "test"
log_user_prompt = true
exporter = { otlp-http = { endpoint = "$stub/v1/logs", protocol = "binary" } }
trace_exporter = { otlp-http = { endpoint = "$stub/v1/traces", protocol = "binary" } }
metrics_exporter = "none"
SETTINGS
curl -s "$stub/stub/begin" -d "{\"producer\": \"codex-cli\", \"scenario\": \"$scenario\", \"versions\": {\"@openai/codex\": \"0.169.0\"},
  \"convention\": \"Codex's own log events\", \"names\": {\"read_tool\": \"exec_command\", \"read_fails\": false,
  \"read_arguments\": [{\"cmd\": \"cat notes.txt\"}, {\"cmd\": \"cat missing.txt\"}],
  \"read_results\": [\"hello notes\", \"cat: missing.txt: No such file or directory\"]}}" > /dev/null
curl -s "$stub/stub/run" -d '{}' > /dev/null
(cd "$home/work" && HOME=$home CODEX_HOME=$home OPENAI_API_KEY=none "$here/node_modules/.bin/codex" exec --skip-git-repo-check "$text" < /dev/null)
curl -s "$stub/stub/end" -d '{}'
rm -rf "$home"
