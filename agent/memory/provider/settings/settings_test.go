package settings_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hermesd/agent/memory/provider/settings"
)

func parse(t testing.TB, text string) *settings.Object {
	t.Helper()
	o, err := settings.Parse("test.json", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestLooseTypes(t *testing.T) {
	o := parse(t, `{"text":" a ","number":7.5,"yes":"True","no":"0","one":1,"null":null,"empty":"","object":{},"list":["a",2,"a"," "],"words":"a, b,a","inner":"[\"x\",\"y\"]"}`)
	for _, test := range []struct{ got, want any }{
		{o.Text("missing", "empty", "null", "text", "number"), "a"},
		{o.Text("number"), "7.5"},
		{o.Text("object"), ""},
		{o.Bool("yes", false), true},
		{o.Bool("no", true), false},
		{o.Bool("one", false), true},
		{o.Bool("missing", true), true},
		{o.Bool("text", true), false},
		{o.Int("number", 1), 7},
		{o.Int("text", 3), 3},
		{strings.Join(o.List("list"), "|"), "a|2"},
		{strings.Join(o.List("words"), "|"), "a|b"},
		{strings.Join(o.List("inner"), "|"), "x|y"},
		{len(o.List("missing")), 0},
		{string(o.Raw("object")), "{}"},
	} {
		if test.got != test.want {
			t.Errorf("got %v, want %v", test.got, test.want)
		}
	}
}

func TestUnknownKeys(t *testing.T) {
	o := parse(t, `{"b":1,"a":1,"read":1,"skipped":1}`)
	o.Text("read", "other")
	o.Skip("skipped")
	want := []string{`test.json: the key "a" is unknown and has no effect`, `test.json: the key "b" is unknown and has no effect`}
	if got := o.Unknown(); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mem0.json")
	if o, found, err := settings.Read(nil, path); err != nil || found || o.Text("host") != "" {
		t.Errorf("a missing file: %v, %v", found, err)
	}
	if err := os.WriteFile(path, []byte(`["host"]`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := settings.Read(nil, path); err == nil || !strings.Contains(err.Error(), "mem0.json is not a JSON object") {
		t.Errorf("error %v", err)
	}
	if _, _, err := settings.Read(nil, t.TempDir()); err == nil {
		t.Error("a directory was read")
	}
}

func FuzzObject(f *testing.F) {
	f.Add(`{"k":["a",1,null]}`)
	f.Add(`{"k":"[1,"}`)
	f.Add(`{"k":1e400}`)
	f.Fuzz(func(_ *testing.T, text string) {
		o, err := settings.Parse("fuzz", []byte(text))
		if err != nil {
			return
		}
		o.Text("k")
		o.Bool("k", true)
		o.Int("k", 1)
		o.List("k")
		o.Unknown()
	})
}

func TestNumbers(t *testing.T) {
	o, err := settings.Parse("x", []byte("\xef\xbb\xbf"+`{"a":1.5,"b":"2.5","c":9,"d":-9,"e":"NaN","f":[1],"y":"Y"}`))
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]float64{"a": 1.5, "b": 2.5, "c": 4, "d": 1, "e": 3, "f": 3, "missing": 3} {
		if got := o.Number(key, 3, 1, 4); got != want {
			t.Errorf("%s: %v, want %v", key, got, want)
		}
	}
	if !o.Bool("y", false) {
		t.Error("y is not true")
	}
}
