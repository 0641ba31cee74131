package admin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"

	"hermesd/agent/memory/provider"
	"hermesd/agent/memory/provider/holographic"
	"hermesd/cmd/internal/admin"
	"hermesd/gateway/access"
	"hermesd/gateway/memory"
	"hermesd/gateway/store"
	"hermesd/internal/secret"
	"hermesd/storage/bolt"
)

func TestEventsOfTheExternalMemory(t *testing.T) {
	home := t.TempDir()
	s, err := bolt.Open(t.Context(), filepath.Join(home, "hermesd.db"), bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	p, _, err := holographic.Open(provider.Source{Home: home})
	if err != nil {
		t.Fatal(err)
	}
	service := memory.New(memory.Parts{Provider: p, Store: s, Settings: memory.Settings{Owners: func() []access.Principal { return nil }}, Mask: new(secret.Masker).Mask, Log: zap.NewNop(), Observe: func(memory.Call) {}, Notify: func(context.Context, error) {}})
	defer service.Close()
	for i := range 4 {
		doc := json.RawMessage(`{"provider":"holographic","event":{"kind":"turn","scope":{"Person":"ann"},"messages":[{"role":"user","text":"I like tea"}]},"rest":[{"role":"assistant","text":"Noted"}]}`)
		if err := s.EnqueueEvents(t.Context(), []store.Event{{Queue: memory.Queue, Key: fmt.Sprint(i), Group: "g", Doc: doc}}, "", nil); err != nil {
			t.Fatal(err)
		}
	}
	c := admin.Local(admin.NewHandler(admin.Options{Log: zap.NewNop(), Masker: new(secret.Masker), Store: &fakeStore{}, Events: s, Memory: service}))
	defer func() { _ = c.Close(t.Context()) }()
	es, err := c.MemoryEvents(t.Context())
	if err != nil || len(es) != 4 || es[0].Kind != provider.Turn || es[0].Person != "ann" || es[0].Group != "g" {
		t.Fatalf("%+v, %v", es, err)
	}
	if e, err := c.MemoryEvent(t.Context(), es[1].ID); err != nil || e.QueuedEvent != es[1] || len(e.Messages) != 2 || e.Messages[0].Text != "I like tea" || e.Messages[1].Text != "Noted" {
		t.Errorf("show: %+v, %v", e, err)
	}
	if _, err := c.MemoryEvent(t.Context(), 999); err == nil || !strings.Contains(err.Error(), "no event 999") {
		t.Error("show what is not there:", err)
	}
	if n, err := c.RetryMemoryEvents(t.Context(), es[0].ID); n != 1 || err != nil {
		t.Error("retry:", n, err)
	}
	if n, err := c.DropMemoryEvents(t.Context(), es[0].ID, 999); n != 1 || err != nil {
		t.Error("drop:", n, err)
	}
	if f, err := c.ForgetPerson(t.Context(), "ann", ""); err != nil || f.Cannot == "" {
		t.Errorf("forget: %+v, %v", f, err)
	}
	if es, err := c.MemoryEvents(t.Context()); err != nil || len(es) != 1 || es[0].Kind != provider.Forget {
		t.Errorf("after forget: %+v, %v", es, err)
	}
	if n, err := c.DropMemoryEvents(t.Context()); n != 1 || err != nil {
		t.Error("drop all:", n, err)
	}
	off := admin.Local(admin.NewHandler(admin.Options{Log: zap.NewNop(), Masker: new(secret.Masker), Store: &fakeStore{}, Events: s, Memory: memory.Off()}))
	defer func() { _ = off.Close(t.Context()) }()
	if _, err := off.ForgetPerson(t.Context(), "", ""); err == nil || !strings.Contains(err.Error(), "no external memory") {
		t.Error("without a provider:", err)
	}
}
