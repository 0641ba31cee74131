package memory_test

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// TestStandingTextIsFetchedAsTheProviderIsConfigured: Honcho has a setting for it, with the
// default of upstream; supermemory has none.
func TestStandingTextIsFetchedAsTheProviderIsConfigured(t *testing.T) {
	for _, test := range []struct {
		provider, file string
		want           int // fetches in 7 turns
	}{
		{"honcho", `{}`, 7},
		{"honcho", `{"contextCadence":3}`, 3},
		{"honcho", `{"contextCadence":0}`, 7},
		{"honcho", `{"contextCadence":2,"hosts":{"hermes":{"contextCadence":"6"}}}`, 2},
		{"supermemory", `{}`, 2},
	} {
		t.Run(test.provider+" "+test.file, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				file := filepath.Join(dir, ".hermes", test.provider+".json")
				if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(test.file), 0o600); err != nil {
					t.Fatal(err)
				}
				d := start(t, services()[test.provider](t), dir)
				for i := range 7 {
					d.begin(owner("s", i, question))
					later(time.Minute)
				}
				if n := d.bench.count("standing", "ok"); n != test.want {
					t.Errorf("%d times in 7 turns, want %d", n, test.want)
				}
			})
		})
	}
}
