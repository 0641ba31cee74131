package backup_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"hermesd/agent/memory/provider"
	"hermesd/agent/memory/provider/holographic"
	"hermesd/cmd/internal/backup"
	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
	"hermesd/gateway/store"
	"hermesd/internal/atomicfile"
	"hermesd/storage"
	"hermesd/storage/bolt"
)

// childEnv, if set, names a home directory into which this process restores
// childArchive.
const (
	childEnv     = "BACKUP_TEST_HOME"
	childArchive = "BACKUP_TEST_ARCHIVE"
)

func TestMain(m *testing.M) {
	if home := os.Getenv(childEnv); home != "" {
		_, err := backup.Restore(context.Background(), home, os.Getenv(childArchive), time.Now())
		if err != nil {
			_, _ = os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// writeFiles writes files into home; each name is followed by its content.
func writeFiles(t testing.TB, home string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(home, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must(t, os.WriteFile(path, []byte(text), 0o600))
	}
}

// event returns an inbox entry with a message.
func event(n int) inbox.Entry {
	from := chat.Address{Platform: chat.Telegram, Kind: chat.DM, Chat: "1"}
	return inbox.Entry{
		Inbound: chat.Inbound{IdempotencyKey: fmt.Sprint("k", n), Address: from, Text: strings.Repeat("word ", 100), SentAt: time.Now()}, Lane: "lane", Accepted: time.Now(),
	}
}

// addMessages adds n messages to the store of home.
func addMessages(t testing.TB, home string, n int) {
	t.Helper()
	s, err := bolt.Open(t.Context(), filepath.Join(home, "hermesd.db"), bolt.Options{})
	must(t, err)
	for i := range n {
		_, err := s.Accept(t.Context(), []store.Admission{{Entry: event(i)}})
		must(t, err)
	}
	must(t, s.Close())
}

// countWaiting opens the store of home, verifies it, and returns the number of
// waiting messages.
func countWaiting(t testing.TB, home string) int {
	t.Helper()
	s, err := bolt.Open(t.Context(), filepath.Join(home, "hermesd.db"), bolt.Options{})
	must(t, err)
	defer func() { must(t, s.Close()) }()
	must(t, s.Verify(t.Context()))
	return s.Stats().Waiting
}

// readTree returns the files of home by name, except those of the store, the lock,
// and the replaced parts.
func readTree(t testing.TB, home string) map[string]string {
	t.Helper()
	m := map[string]string{}
	must(t, filepath.WalkDir(home, func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(home, path)
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(name, "before-restore"):
			return filepath.SkipDir
		case d.IsDir() || strings.HasPrefix(name, "hermesd."):
			return nil
		}
		raw, err := os.ReadFile(path)
		m[filepath.ToSlash(name)] = string(raw)
		return err
	}))
	return m
}

func files() map[string]string {
	return map[string]string{
		"config.yaml": "model:\n  api_key: sk-very-secret\n", ".env": "TOKEN=x\n", "http.key": "hk-1", "metrics.key": "hk-2", "SOUL.md": "I am.", "memories/MEMORY.md": "one\n§\ntwo",
		"skills/a/SKILL.md": "---\nname: a\n---\n", "cron/jobs.json": "[]", "workspace/big": "not of a backup", "logs/x.log": "lines",
	}
}

func mask(s string) string { return strings.ReplaceAll(s, "sk-very-secret", "<secret>") }

// archive creates a backup of home and returns its path.
func archive(t testing.TB, home string, secrets bool) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "b.tar.gz")
	o := backup.Options{
		Home: home, Secrets: secrets, Mask: mask, Masked: "<secret>",
		Manifest: backup.Manifest{Made: time.Now(), Version: "test", Schema: bolt.SchemaNow()},
	}
	if _, err := os.Stat(filepath.Join(home, "hermesd.db")); err == nil {
		o.Store = filepath.Join(home, "hermesd.db") // not open anywhere
	}
	_, err := backup.Write(t.Context(), name, o)
	must(t, err)
	return name
}

func restore(t testing.TB, home, name string) (backup.Report, error) {
	t.Helper()
	return backup.Restore(t.Context(), home, name, time.Now())
}

func TestRestoreBringsBackFilesAndKeepsOldOnes(t *testing.T) {
	t.Parallel()
	from := t.TempDir()
	writeFiles(t, from, files())
	addMessages(t, from, 3)
	name := archive(t, from, true)
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the archive: %v, %v", info.Mode(), err)
	}
	to := t.TempDir()
	writeFiles(t, to, map[string]string{
		"SOUL.md": "another", "memories/USER.md": "of another", "workspace/mine": "stays", "search.db": "of another store", "scripts/old.sh": "goes",
	})
	addMessages(t, to, 1)
	r, err := restore(t, to, name)
	must(t, err)
	want := files()
	delete(want, "workspace/big")
	delete(want, "logs/x.log")
	want["workspace/mine"] = "stays"
	if diff := cmp.Diff(want, readTree(t, to)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if n := countWaiting(t, to); n != 3 {
		t.Errorf("%d wait, want 3", n)
	}
	if n := countWaiting(t, r.Aside); n != 1 {
		t.Errorf("aside: %d wait, want 1", n)
	}
	old := readTree(t, r.Aside)
	for name, text := range map[string]string{"SOUL.md": "another", "memories/USER.md": "of another", "search.db": "of another store", "scripts/old.sh": "goes"} {
		if old[name] != text {
			t.Errorf("aside, %s is %q", name, old[name])
		}
	}
}

func TestWriteExcludesSecretsByDefault(t *testing.T) {
	t.Parallel()
	from, to := t.TempDir(), t.TempDir()
	writeFiles(t, from, files())
	name := archive(t, from, false)
	writeFiles(t, to, map[string]string{".env": "MINE=1\n"})
	_, err := restore(t, to, name)
	must(t, err)
	got := readTree(t, to)
	if got[".env"] != "MINE=1\n" || got["http.key"]+got["metrics.key"] != "" || got["config.yaml"] != "model:\n  api_key: "+backup.LeftOut+"\n" {
		t.Errorf("got %q", got)
	}
	if _, err := backup.Write(t.Context(), name, backup.Options{Home: from}); err == nil || !strings.Contains(err.Error(), "exists already") {
		t.Errorf("over another file: %v", err)
	}
}

func TestWriteDoesNotFollowLinks(t *testing.T) {
	t.Parallel()
	from := t.TempDir()
	writeFiles(t, from, map[string]string{"SOUL.md": "I am."})
	if err := os.Symlink("/etc/passwd", filepath.Join(from, "skills")); err != nil {
		t.Skip(err)
	}
	m, err := backup.Write(t.Context(), filepath.Join(t.TempDir(), "b"), backup.Options{Home: from})
	must(t, err)
	if len(m.Files) != 1 || len(m.Skipped) != 1 || !strings.Contains(m.Skipped[0], "skills") {
		t.Errorf("got %+v", m)
	}
}

func TestRestoreFailsWhileDaemonRuns(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	writeFiles(t, home, files())
	name := archive(t, home, true)
	h, err := storage.Open(home)
	must(t, err)
	defer func() { must(t, h.Close()) }()
	var locked *storage.LockedError
	if _, err := restore(t, home, name); !errors.As(err, &locked) {
		t.Errorf("got %v", err)
	}
}

func TestRestoreRejectsNewerStore(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	writeFiles(t, home, files())
	addMessages(t, home, 1)
	name := filepath.Join(t.TempDir(), "b")
	_, err := backup.Write(t.Context(), name, backup.Options{Home: home, Store: filepath.Join(home, "hermesd.db"), Manifest: backup.Manifest{Schema: bolt.SchemaNow() + 1}})
	must(t, err)
	before := readTree(t, home)
	var newer *storage.NewerError
	if _, err := restore(t, home, name); !errors.As(err, &newer) {
		t.Errorf("got %v", err)
	}
	if diff := cmp.Diff(before, readTree(t, home)); diff != "" {
		t.Errorf("something has changed (-want +got):\n%s", diff)
	}
}

// However an archive is damaged, a restore restores all of it or changes nothing.
func TestRestoreOfDamagedArchiveChangesNothing(t *testing.T) {
	t.Parallel()
	from := t.TempDir()
	writeFiles(t, from, files())
	whole, err := os.ReadFile(archive(t, from, true))
	must(t, err)
	to := t.TempDir()
	writeFiles(t, to, map[string]string{"SOUL.md": "mine"})
	before := readTree(t, to)
	name := filepath.Join(t.TempDir(), "damaged")
	full := t.TempDir() // the home directory after restoring the intact archive
	writeFiles(t, full, map[string]string{"SOUL.md": "mine"})
	must(t, os.WriteFile(name, whole, 0o600))
	_, err = restore(t, full, name)
	must(t, err)
	restored := readTree(t, full)
	rapid.Check(t, func(rt *rapid.T) {
		raw := bytes.Clone(whole)
		if rapid.Bool().Draw(rt, "cut") {
			raw = raw[:rapid.IntRange(0, len(raw)-1).Draw(rt, "at")]
		} else {
			raw[rapid.IntRange(10, len(raw)-1).Draw(rt, "at")] ^= 1 << rapid.IntRange(0, 7).Draw(rt, "bit")
		}
		must(t, os.WriteFile(name, raw, 0o600))
		if _, err := restore(t, to, name); err == nil { // some bits of a compressed file are only padding
			if diff := cmp.Diff(restored, readTree(t, to)); diff != "" {
				rt.Fatalf("it is restored, and not what was saved (-want +got):\n%s", diff)
			}
			to = t.TempDir()
			writeFiles(t, to, map[string]string{"SOUL.md": "mine"})
		}
		if diff := cmp.Diff(before, readTree(t, to)); diff != "" {
			rt.Errorf("something has changed (-want +got):\n%s", diff)
		}
	})
}

// A restore that fails at any of its renames can be resumed.
func TestRestoreResumesAfterFailure(t *testing.T) {
	t.Parallel()
	from := t.TempDir()
	writeFiles(t, from, files())
	name := archive(t, from, true)
	no := errors.New("the power is gone")
	for cut := 0; ; cut++ {
		to := t.TempDir()
		writeFiles(t, to, map[string]string{"SOUL.md": "mine", "memories/USER.md": "x", "scripts/old": "goes"})
		n := 0
		err := backup.RestoreWith(t.Context(), to, name, func(from, to string) error {
			if n++; n > cut {
				return no
			}
			return os.Rename(from, to)
		})
		if err == nil {
			if cut < 8 {
				t.Errorf("only %d moves", cut)
			}
			return
		}
		if !errors.Is(err, no) {
			t.Fatal(err)
		}
		if done, err := backup.Resume(to); err != nil || !done {
			t.Fatalf("after %d moves: %t, %v", cut, done, err)
		}
		want := files()
		delete(want, "workspace/big")
		delete(want, "logs/x.log")
		if diff := cmp.Diff(want, readTree(t, to)); diff != "" {
			t.Errorf("after %d moves (-want +got):\n%s", cut, diff)
		}
		if done, err := backup.Resume(to); err != nil || done {
			t.Errorf("a second time: %t, %v", done, err)
		}
	}
}

// A killed restore leaves the old home directory or, once it is resumed, the new
// one.
func TestRestoreKilledIsAtomic(t *testing.T) {
	t.Parallel()
	from := t.TempDir()
	writeFiles(t, from, files())
	addMessages(t, from, 20)
	name := archive(t, from, true)
	for i := range 6 {
		to := t.TempDir()
		writeFiles(t, to, map[string]string{"SOUL.md": "mine"})
		ctx, kill := context.WithTimeout(t.Context(), time.Duration(i)*12*time.Millisecond)
		cmd := exec.CommandContext(ctx, os.Args[0])
		cmd.Env = append(os.Environ(), childEnv+"="+to, childArchive+"="+name)
		_ = cmd.Run() // killed or not
		kill()
		_, err := backup.Resume(to)
		must(t, err)
		root, err := os.OpenRoot(to)
		must(t, err)
		must(t, errors.Join(atomicfile.RemoveStale(root, time.Now().Add(time.Minute), "."), root.Close())) // as the next start does
		got := readTree(t, to)
		for part := range got { // of a restore that had not changed anything yet
			if strings.HasPrefix(part, ".restore-") || strings.HasPrefix(part, ".probe-") {
				delete(got, part)
			}
		}
		want := map[string]string{"SOUL.md": "mine"}
		if got["SOUL.md"] != "mine" {
			want = files()
			delete(want, "workspace/big")
			delete(want, "logs/x.log")
			if n := countWaiting(t, to); n != 20 {
				t.Errorf("%d wait, want 20", n)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("killed after %d ms (-want +got):\n%s", i*12, diff)
		}
		if _, err := restore(t, to, name); err != nil {
			t.Errorf("the next one: %v", err)
		}
	}
}

// A copy of a store under load is consistent and contains everything that was
// accepted before the copy began.
func TestBackupUnderLoadIsConsistent(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	s, err := bolt.Open(t.Context(), filepath.Join(home, "hermesd.db"), bolt.Options{})
	must(t, err)
	var wg sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	accepted := make(chan int, 1)
	wg.Go(func() {
		for n := 0; ; n++ {
			if _, err := s.Accept(ctx, []store.Admission{{Entry: event(n)}}); err != nil {
				return
			}
			select {
			case <-accepted:
			default:
			}
			accepted <- n + 1
		}
	})
	for i := range 3 {
		before := <-accepted
		path := filepath.Join(t.TempDir(), "hermesd.db")
		must(t, s.Backup(t.Context(), path))
		name := filepath.Join(t.TempDir(), "b")
		_, err := backup.Write(t.Context(), name, backup.Options{Home: home, Store: path, Manifest: backup.Manifest{Schema: bolt.SchemaNow()}})
		must(t, err)
		to := t.TempDir()
		_, err = restore(t, to, name)
		must(t, err)
		if n := countWaiting(t, to); n < before {
			t.Errorf("copy %d has %d messages, %d were accepted before", i, n, before)
		}
	}
	stop()
	wg.Wait()
	must(t, s.Close())
}

// remember has the memory provider holographic of home store a fact of a person and stay
// open.
func remember(t *testing.T, home, person, fact string) provider.Provider {
	t.Helper()
	p, _, err := holographic.Open(provider.Source{Home: home})
	must(t, err)
	t.Cleanup(func() { must(t, p.Close()) })
	_, err = p.Sync(t.Context(), provider.Event{Kind: provider.Added, Scope: provider.Scope{Person: person}, Fact: provider.Fact{Target: "memory", Text: fact}})
	must(t, err)
	return p
}

// facts returns what the memory provider holographic of home recalls of a person.
func facts(t *testing.T, home, person, query string) (texts []string) {
	t.Helper()
	p, _, err := holographic.Open(provider.Source{Home: home})
	must(t, err)
	defer func() { must(t, p.Close()) }()
	items, err := p.Recall(t.Context(), provider.Scope{Person: person}, query)
	must(t, err)
	for _, i := range items {
		texts = append(texts, i.Text)
	}
	return texts
}

// The files of memory providers are in a backup, those with keys only with secrets. A
// database that is in use is copied with what is only in its log.
func TestBackupHasFilesOfMemoryProviders(t *testing.T) {
	t.Parallel()
	keys := []string{"honcho.json", "mem0.json", "supermemory.json", "hindsight/config.json"}
	from := t.TempDir()
	writeFiles(t, from, map[string]string{"SOUL.md": "I am.", "byterover/.brv/context-tree/a.md": "a", "memory_store/notes.txt": "n"})
	for _, name := range keys {
		writeFiles(t, from, map[string]string{name: "key"})
	}
	remember(t, from, "", "The printer is on floor 3")
	remember(t, from, "telegram-7", "The scanner is on floor 4")
	if info, err := os.Stat(filepath.Join(from, "memory_store.db-wal")); err != nil || info.Size() == 0 {
		t.Fatal("the log is empty:", err)
	}
	for _, secrets := range []bool{false, true} {
		name := archive(t, from, secrets)
		to := t.TempDir()
		writeFiles(t, to, map[string]string{"memory_store.db-wal": "of another database", "byterover/mine": "goes", "honcho.json": "mine"})
		r, err := restore(t, to, name)
		must(t, err)
		if len(r.Manifest.Skipped) > 0 {
			t.Errorf("skipped: %q", r.Manifest.Skipped)
		}
		got := readTree(t, to)
		for _, gone := range []string{"memory_store.db-wal", "memory_store.db-shm", "memory_store/telegram-7.db-wal", "byterover/mine"} {
			if _, ok := got[gone]; ok {
				t.Error(gone, "is there")
			}
		}
		if got["byterover/.brv/context-tree/a.md"] != "a" || got["memory_store/notes.txt"] != "n" || readTree(t, r.Aside)["memory_store.db-wal"] != "of another database" {
			t.Errorf("restored: %q", got)
		}
		for _, key := range keys {
			want := map[string]string{"honcho.json": "mine"}[key]
			if secrets {
				want = "key"
			}
			if got[key] != want {
				t.Errorf("secrets %t: %s is %q, want %q", secrets, key, got[key], want)
			}
		}
		if got := facts(t, to, "", "Where is the printer?"); len(got) != 1 {
			t.Errorf("the owner's facts: %q", got)
		}
		if got := facts(t, to, "telegram-7", "Where is the scanner?"); len(got) != 1 {
			t.Errorf("another person's facts: %q", got)
		}
	}
	if left, err := filepath.Glob(filepath.Join(from, "*backup*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}

// A file that is no database does not prevent a backup, and is named.
func TestBackupWithoutDamagedFacts(t *testing.T) {
	t.Parallel()
	from := t.TempDir()
	writeFiles(t, from, map[string]string{"SOUL.md": "I am.", "memory_store.db": strings.Repeat("no database ", 100)})
	m, err := backup.Write(t.Context(), filepath.Join(t.TempDir(), "b"), backup.Options{Home: from})
	must(t, err)
	if len(m.Files) != 1 || len(m.Skipped) != 1 || !strings.Contains(m.Skipped[0], "memory_store.db: it cannot be copied") {
		t.Errorf("got %+v", m)
	}
}

// An archive of an earlier version says nothing of memory providers: their files stay.
func TestRestoreOfEarlierArchiveKeepsFacts(t *testing.T) {
	t.Parallel()
	to := t.TempDir()
	writeFiles(t, to, map[string]string{"SOUL.md": "mine", "mem0.json": "mine", "byterover/a": "mine"})
	must(t, remember(t, to, "", "The printer is on floor 3").Close())
	if _, err := restore(t, to, filepath.Join("testdata", "earlier.tar.gz")); err != nil {
		t.Fatal(err)
	}
	got := readTree(t, to)
	if got["SOUL.md"] != "I am." || got["mem0.json"] != "mine" || got["byterover/a"] != "mine" {
		t.Errorf("got %q", got)
	}
	if got := facts(t, to, "", "Where is the printer?"); len(got) != 1 {
		t.Errorf("facts: %q", got)
	}
}
