package app_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// An engine that nobody knows, or a directory that holds none, is an error at the
// start that says what there is.
func TestAnEngineThatIsNotThereIsAnErrorAtTheStart(t *testing.T) {
	for _, c := range []struct{ name, has, want string }{
		{"zipper", "", `there is no context engine "zipper"; known are compressor, lcm`},
		{"mine", "plugins/context_engine/mine", "is not a context engine: there is no plugin.yaml"},
		{"../../up", "", "there is no context engine"},
	} {
		w := newWorld(t, fault{})
		w.configure("context: {engine: "+c.name+"}", "")
		if c.has != "" {
			w.must(os.MkdirAll(filepath.Join(w.home, filepath.FromSlash(c.has)), 0o700))
		}
		if _, err := w.build(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
