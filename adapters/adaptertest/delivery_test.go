package adaptertest_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hermesd/adapters/adaptertest"
	"hermesd/adapters/console"
	"hermesd/adapters/httpapi"
	"hermesd/gateway/chat"
)

var update = flag.Bool("update", false, "write the generated table")

// The table stands between these lines.
const (
	begin = "<!-- made by: go test ./adapters/adaptertest -run Delivery -update -->\n\n"
	end   = "\n<!-- end -->\n"
)

func TestThePageOfDeliverySaysWhatTheCodeSays(t *testing.T) {
	page := filepath.Join("..", "..", "docs", "delivery.md")
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok1 := strings.Cut(string(raw), begin)
	table, foot, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no place for the table", page)
	}
	want := adaptertest.Markdown(adaptertest.Deliveries())
	if *update {
		if err := os.WriteFile(page, []byte(head+begin+want+end+foot), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, table); diff != "" {
		t.Errorf("%s is not what the code says (-update writes it):\n%s", page, diff)
	}
}

// The suite tries what is promised for the other platforms.
func TestOwnSurfacesDeliverAsPromised(t *testing.T) {
	api, err := httpapi.New(httpapi.Config{}, httpapi.Options{Key: "a-key-of-enough-length-for-a-test"})
	if err != nil {
		t.Fatal(err)
	}
	own := map[chat.Platform]chat.Adapter{chat.Console: console.New(console.Options{}), chat.HTTP: api}
	seen := 0
	for _, d := range adaptertest.Deliveries() {
		a, ok := own[d.Platform]
		if !ok {
			continue
		}
		seen++
		if _, finds := a.(chat.Finder); a.Capabilities().CanFind != d.Lookup || finds != d.Lookup {
			t.Errorf("%s can be asked: %v, promised is %v", d.Platform, a.Capabilities().CanFind, d.Lookup)
		}
	}
	if seen != len(own) {
		t.Errorf("promises for %d of %d", seen, len(own))
	}
}
