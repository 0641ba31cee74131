package app_test

import (
	"os"
	"runtime"
	"testing"
)

// shelf is an engine plugin with a tool of its own.
const shelf = `#!/bin/sh
while IFS= read -r line; do
	id=$(printf %s "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
	case "$line" in
	*'"method":"initialize"'*) r='{"protocol":1}' ;;
	*'"method":"threshold"'*) r='{"tokens":100000}' ;;
	*'"method":"tool"'*) r='{"text":"the shelf is blue"}' ;;
	*) continue ;;
	esac
	[ -n "$id" ] && printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$r"
done
`

func TestEnginePluginToolsAreOffered(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the engine is a shell script")
	}
	w := newHarness(t, fault{config: "context:\n  engine: shelf\n"})
	dir := "plugins/context_engine/shelf"
	w.must(os.MkdirAll(w.path(dir), 0o700))
	w.writeFile(dir+"/run.sh", shelf)
	w.must(os.Chmod(w.path(dir+"/run.sh"), 0o700))
	w.writeFile(dir+"/plugin.yaml", "name: shelf\ncommand: [./run.sh]\ntools:\n- {name: shelf_look, description: Looks on the shelf.}\n")
	w.start()
	w.askConsole(use("shelf_look", `{}`), "the shelf is blue")
	w.stop()
}
