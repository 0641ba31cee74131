package storagetest

import (
	"errors"

	"hermesd/gateway/store"
)

func valueTests() map[string]func(*harness) {
	return map[string]func(*harness){
		"small values are stored": func(w *harness) {
			v, err := w.Value(w.Context(), "k")
			w.ok(err)
			equal(w, "value", v, nil)
			w.ok(w.SetValue(w.Context(), "k", []byte("v")))
			w.crash()
			v, err = w.Value(w.Context(), "k")
			w.ok(err)
			equal(w, "value", string(v), "v")
			w.ok(w.SetValue(w.Context(), "k", nil))
			v, err = w.Value(w.Context(), "k")
			w.ok(err)
			if v != nil {
				w.Fatalf("got %q, want nothing", v)
			}
		},
		"a small value is changed in one write": func(w *harness) {
			w.ok(store.Save(w.Context(), w, "n", 1))
			edits := make(chan error)
			for range 20 {
				go func() {
					edits <- store.Change(w.Context(), w, "n", func(n int) (int, error) { return n + 1, nil })
				}()
			}
			for range 20 {
				w.ok(<-edits)
			}
			w.crash()
			refused := errors.New("refused")
			if err := store.Change(w.Context(), w, "n", func(int) (int, error) { return 0, refused }); !errors.Is(err, refused) {
				w.Fatalf("got %v, want the error of the change", err)
			}
			n, err := store.Load[int](w.Context(), w, "n")
			w.ok(err)
			equal(w, "number", n, 21)
			w.ok(w.EditValue(w.Context(), "n", func(old []byte) ([]byte, error) {
				equal(w, "stored bytes", string(old), "21")
				return nil, nil
			}))
			v, err := w.Value(w.Context(), "n")
			w.ok(err)
			if v != nil {
				w.Fatalf("got %q, want nothing", v)
			}
		},
	}
}
