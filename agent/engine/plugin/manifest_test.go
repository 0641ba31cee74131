package plugin_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hermesd/agent/engine/plugin"
)

func writeFile(t testing.TB, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestLoad(t *testing.T) {
	for _, c := range []struct {
		text    string
		command []string
		timeout time.Duration
		missing string
	}{
		{"name: mine\ncommand: [./run, -v, 'a b']\ntimeout: 90s\n", []string{"./run", "-v", "a b"}, 90 * time.Second, ""},
		{"name: mine\ncommand: python3 engine.py\n", []string{"python3", "engine.py"}, time.Minute, ""},
		{"name: mine\ndescription: x\ncommand: run\nversion: 1\n", []string{"run"}, time.Minute, ""},
		{"", nil, 0, "name is missing; command is missing: the program that speaks JSON-RPC on its standard input and output; docs/engines.md shows the form"},
		{"name: other\ncommand: run\n", nil, 0, `name is "other" and the directory is called "mine"`},
		{"name: ../mine\ncommand: run\n", nil, 0, "is not of a-z"},
		{"name: mine\ncommand: {a: b}\n", nil, 0, "command is missing"},
		{"name: mine\ncommand: [[a]]\n", nil, 0, "command is no list of words"},
		{"name: mine\ncommand: run\ntimeout: 1h\n", nil, 0, `timeout "1h" is no time such as 30s, of at most 10m0s`},
		{"name: mine\ncommand: run\ntimeout: 30\n", nil, 0, `timeout "30" is no time`},
		{"name: mine\ncommand: run\ntimeout: -1s\n", nil, 0, "is no time"},
		{"name: [\n", nil, 0, "plugin.yaml cannot be read: line "},
		{strings.Repeat("#", 70_000), nil, 0, "plugin.yaml is no small file"},
	} {
		dir := filepath.Join(t.TempDir(), "mine")
		writeFile(t, filepath.Join(dir, "plugin.yaml"), c.text)
		m, err := plugin.Load(dir)
		var form *plugin.ManifestError
		switch {
		case c.missing == "" && (err != nil || !slices.Equal(m.Command, c.command) || m.Timeout != c.timeout || m.Name != "mine" || m.Dir != dir):
			t.Errorf("%q: got %+v, %v", c.text, m, err)
		case c.missing != "" && (!errors.As(err, &form) || !strings.Contains(err.Error(), c.missing) || form.Dir != dir):
			t.Errorf("%.50q: got %v, want %s", c.text, err, c.missing)
		}
	}
}

func TestList(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"b", "a"} {
		writeFile(t, filepath.Join(dir, name, "plugin.yaml"), "name: "+name+"\ncommand: run\n")
	}
	writeFile(t, filepath.Join(dir, "python", "__init__.py"), "def register(ctx): ...")
	writeFile(t, filepath.Join(dir, "README.md"), "no engine")
	ms, bad := plugin.List(dir)
	if len(ms) != 2 || ms[0].Name != "a" || ms[1].Name != "b" {
		t.Errorf("got %+v", ms)
	}
	if len(bad) != 1 || !strings.Contains(bad[0].Error(), filepath.Join(dir, "python")+" is not a context engine: there is no plugin.yaml") {
		t.Errorf("got %v", bad)
	}
	if ms, bad := plugin.List(filepath.Join(dir, "nowhere")); ms != nil || bad != nil {
		t.Errorf("got %v, %v", ms, bad)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add("name: mine\ncommand: [a, b]\ntimeout: 3s\n")
	f.Add("name: &a [*a]\n")
	f.Fuzz(func(t *testing.T, text string) {
		dir := filepath.Join(t.TempDir(), "mine")
		writeFile(t, filepath.Join(dir, "plugin.yaml"), text)
		m, err := plugin.Load(dir)
		if err == nil && (m.Name != "mine" || len(m.Command) == 0 || m.Timeout <= 0) {
			t.Fatalf("got %+v", m)
		}
	})
}
