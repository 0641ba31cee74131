package index_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"hermesd/storage/index"
)

// noSpace fails unless there is no index because the disk is full.
func noSpace(t *testing.T, x *index.Index, when string) {
	t.Helper()
	if hits, err := x.Search(t.Context(), index.Query{Text: "apple", Scope: index.OperatorScope()}); !errors.Is(err, index.ErrNoSpace) {
		t.Errorf("%s: a search returns %v, %v, want %v", when, hits, err, index.ErrNoSpace)
	}
}

// A removed index has no file. What has to be deleted from it is deleted, also in
// the one that replaces it.
func TestRemovedIndexHasNoFile(t *testing.T) {
	dir := t.TempDir()
	x, w := open(t, filepath.Join(dir, "search.db")), newFakeStore()
	w.add(dm("a", "1"), "apple")
	w.add(dm("b", "1"), "apple")
	catchUp(t, newFollower(x, w))
	if err := x.Remove(); err != nil {
		t.Fatal(err)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) > 0 {
		t.Errorf("it has files: %v, %v", names, err)
	}
	noSpace(t, x, "after it was removed")
	if err := errors.Join(x.Forget(t.Context(), "a"), x.Compact(t.Context()), x.Remove()); err != nil {
		t.Errorf("there is nothing to delete: %v", err)
	}
	catchUp(t, newFollower(x, w))
	if hits := find(t, x, index.Query{Text: "apple", Scope: index.OperatorScope()}); len(hits) != 1 || hits[0].Session != "b" {
		t.Errorf("after it was rebuilt: %+v", hits)
	}
}

func TestIndexThatIsNotOpen(t *testing.T) {
	x := index.NotOpen()
	if hits, err := x.Search(t.Context(), index.Query{Text: "apple", Scope: index.OperatorScope()}); !errors.Is(err, index.ErrNotOpen) {
		t.Errorf("a search returns %v, %v, want %v", hits, err, index.ErrNotOpen)
	}
	if err := errors.Join(x.Forget(t.Context(), "a"), x.Compact(t.Context()), x.Close()); err != nil {
		t.Errorf("there is nothing to delete: %v", err)
	}
}

// A Follower of an index that is not open runs, and makes no file.
func TestFollowerOfIndexThatIsNotOpen(t *testing.T) {
	t.Chdir(t.TempDir())
	synctest.Test(t, func(t *testing.T) {
		x, w := index.NotOpen(), newFakeStore()
		w.add(dm("a", "1"), "apple")
		f, done := newFollower(x, w), make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		go func() { defer close(done); f.Run(ctx) }()
		for _, tell := range []func(){func() { f.Changed("a") }, f.GiveWay, f.Wake} {
			tell()
			time.Sleep(time.Minute)
		}
		cancel()
		<-done
		if err := x.Fault(); !errors.Is(err, index.ErrNotOpen) {
			t.Errorf("the index is in the state %v, want %v", err, index.ErrNotOpen)
		}
	})
	if made, err := os.ReadDir("."); err != nil || len(made) > 0 {
		t.Errorf("files: %v, %v", made, err)
	}
}

// A tinyDisk is the disk of an index and of a store, which may find it full.
type tinyDisk struct{ free atomic.Uint64 }

func (d *tinyDisk) space() (free, total uint64, err error) { return d.free.Load(), 1 << 40, nil }

// The index does not grow into the last space of the disk. When the store finds the
// disk full, the index is removed, and it is rebuilt when there is space and the
// store writes.
func TestIndexGivesWayOnAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, w, d := newIndex(t), newFakeStore(), &tinyDisk{}
		d.free.Store(1 << 30)
		f, done := newFollower(x, w), make(chan struct{})
		f.SetSpace(d.space)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { defer close(done); f.Run(ctx) }()
		say := func() {
			w.add(dm("a", "1"), "apple")
			f.Changed("a")
		}
		want := func(when string, n int) {
			t.Helper()
			<-time.After(time.Minute)
			if got := len(rowsOf(t, x, "apple")); got != n {
				t.Errorf("%s: %d are found, want %d", when, got, n)
			}
		}
		say()
		want("with space", 1)
		d.free.Store(63 << 20)
		say()
		want("with little space", 1)
		f.GiveWay()
		say()
		<-time.After(time.Minute)
		noSpace(t, x, "after it gave way")
		d.free.Store(65 << 20)
		want("with space again", 3)

		for range 50 { // a quota is reached, which the free space of the disk does not tell
			f.GiveWay()
			say()
			<-time.After(time.Second)
			noSpace(t, x, "while the store cannot write")
		}
		want("when it can write again", 53)
		cancel()
		<-done
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	})
}

// The disk becomes full while the index is built.
func TestIndexGivesWayWhileItIsBuilt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, w, d := newIndex(t), newFakeStore(), &tinyDisk{}
		d.free.Store(1 << 30)
		for range 5 * 250 { // a transaction has 250 rows
			w.add(dm("a", "1"), "apple")
		}
		f, calls := newFollower(x, w), 0
		f.SetSpace(func() (uint64, uint64, error) {
			if calls++; calls == 4 { // before the third transaction
				d.free.Store(0)
			}
			return d.space()
		})
		n, err := f.CatchUp(t.Context())
		if n != 500 || !errors.Is(err, index.ErrNoSpace) {
			t.Errorf("%d are indexed, %v", n, err)
		}
		if got := len(rowsOf(t, x, "apple")); got == 0 {
			t.Error("what was indexed is not found")
		}
		d.free.Store(1 << 30)
		if n := catchUp(t, f); n != 750 {
			t.Errorf("%d are indexed when there is space, want 750", n)
		}
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	})
}
