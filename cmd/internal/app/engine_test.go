package app_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// An unknown engine, or a directory without one, is an error at the start that lists
// the known engines.
func TestEngineUnknownFailsStart(t *testing.T) {
	for _, c := range []struct{ name, has, want string }{
		{"zipper", "", `there is no context engine "zipper"; known are compressor, lcm`},
		{"mine", "plugins/context_engine/mine", "is not a context engine: there is no plugin.yaml"},
		{"../../up", "", "there is no context engine"},
	} {
		w := newHarness(t, fault{})
		w.writeConfig("context: {engine: "+c.name+"}", "")
		if c.has != "" {
			w.must(os.MkdirAll(filepath.Join(w.home, filepath.FromSlash(c.has)), 0o700))
		}
		if _, err := w.build(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

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
