package bolt_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	bbolt "go.etcd.io/bbolt"

	"hermesd/agent"
	"hermesd/agent/llm"
	"hermesd/agent/llm/ledger"
	"hermesd/agent/prompt"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/gateway/schedule"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
	"hermesd/storage/bolt"
	"hermesd/storage/storagetest"
)

// earlierStore unpacks a store that the daemon of November 2026 wrote: three
// platforms, two compactions, scheduled prompts, a pending pairing code, and a
// SIGKILL during a turn of the terminal.
func earlierStore(t *testing.T) string {
	t.Helper()
	packed := must[*os.File](t)(os.Open(filepath.Join("testdata", "store-schema3.db.gz")))
	defer packed.Close()
	var content bytes.Buffer
	_ = must[int64](t)(content.ReadFrom(must[*gzip.Reader](t)(gzip.NewReader(packed))))
	dir := t.TempDir()
	ok(t, os.WriteFile(storePath(dir), content.Bytes(), 0o600))
	return dir
}

// Names of Go fields may change; what is stored may not. Each record of an
// earlier store has only known fields and is encoded to the same bytes again.
func TestEarlierStoreRecordsKeepTheirBytes(t *testing.T) {
	t.Parallel()
	types := map[string]func() any{
		"entries":     func() any { return new(inbox.Entry) },
		"keys":        func() any { return new(bolt.KeyRecord) },
		"turns":       func() any { return new(bolt.TurnRecord) },
		"steps":       func() any { return new(agent.Step) },
		"rows":        func() any { return new(outbox.Row) },
		"sessions":    func() any { return new(bolt.SessionRecord) },
		"prompts":     func() any { return new(prompt.Prefix) },
		"transcripts": func() any { return new(llm.Message) },
		"calls":       func() any { return new(ledger.Record) },
		"jobs":        func() any { return new(schedule.Job) },
		"slots":       func() any { return new(schedule.Occurrence) },
		"moved":       func() any { return new(bolt.MigratedKeyRecord) },
	}
	none := map[string]bool{"moved": true, "steps": true} // the store holds none
	db := must[*bbolt.DB](t)(bbolt.Open(storePath(earlierStore(t)), 0o600, &bbolt.Options{ReadOnly: true}))
	defer db.Close()
	ok(t, db.View(func(tx *bbolt.Tx) error {
		for bucket, record := range types {
			n := 0
			ok(t, tx.Bucket([]byte(bucket)).ForEach(func(k, v []byte) error {
				n++
				stored := v[5:] // version and checksum
				into := record()
				d := json.NewDecoder(bytes.NewReader(stored))
				d.DisallowUnknownFields()
				if err := d.Decode(into); err != nil {
					t.Errorf("%s %q: %v\n%s", bucket, k, err, stored)
					return nil
				}
				if again := must[[]byte](t)(json.Marshal(into)); !bytes.Equal(again, stored) {
					t.Errorf("%s %q is encoded as\n%s\nand was stored as\n%s", bucket, k, again, stored)
				}
				return nil
			}))
			if n == 0 && !none[bucket] {
				t.Errorf("there is no record of %s", bucket)
			}
		}
		return nil
	}))
}

func TestEarlierStoreOpens(t *testing.T) {
	t.Parallel()
	s := open(t, earlierStore(t))
	defer func() { ok(t, s.Close()) }()
	ok(t, s.Verify(t.Context()))
	rows := must[[]store.Doc[llm.Message]](t)(storagetest.Transcript(t.Context(), s, session.ID("20261124_182624_d98afee7"), 0))
	if len(rows) != 10 {
		t.Errorf("the transcript has %d messages, want 10", len(rows))
	}
}
