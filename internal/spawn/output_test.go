package spawn

import (
	"testing"

	"pgregory.net/rapid"
)

// The beginning and the end are kept, whatever the sizes of the writes, and each byte is
// counted once.
func TestHeadAndTailAreKept(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		keep := rapid.IntRange(2, 50).Draw(r, "keep")
		most := rapid.Int64Range(1, 300).Draw(r, "most")
		floods := 0
		c := &capture{keep: keep, max: most, flood: func() { floods++ }}
		var all []byte
		for _, n := range rapid.SliceOfN(rapid.IntRange(0, 60), 0, 12).Draw(r, "pieces") {
			piece := make([]byte, n)
			for i := range piece {
				piece[i] = byte(len(all) + i)
			}
			all = append(all, piece...)
			if got, err := c.Write(piece); got != n || err != nil {
				r.Fatalf("write: %d, %v", got, err)
			}
		}
		wantFloods := 0
		if int64(len(all)) > most {
			all, wantFloods = all[:most], 1
		}
		o := c.snapshot()
		if o.Total != int64(len(all)) || floods != wantFloods {
			r.Fatalf("%d of %d bytes, %d floods", o.Total, len(all), floods)
		}
		if len(o.Head)+len(o.Tail) != min(keep, len(all)) {
			r.Fatalf("%d bytes are kept", len(o.Head)+len(o.Tail))
		}
		since := rapid.Int64Range(0, 400).Draw(r, "since")
		data, lost := o.since(since)
		if got, want := int64(len(data))+lost, max(0, o.Total-since); got != want {
			r.Fatalf("since %d: %d and %d lost, want %d", since, len(data), lost, want)
		}
		if lost == 0 && string(data) != string(all[min(since, o.Total):]) {
			r.Fatalf("since %d: %v", since, data)
		}
		if string(o.Head) != string(all[:len(o.Head)]) || string(o.Tail) != string(all[len(all)-len(o.Tail):]) {
			r.Fatal("head or tail is something else")
		}
	})
}
