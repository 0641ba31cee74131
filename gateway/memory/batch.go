package memory

import (
	"context"
	"encoding/json"
	"time"

	"go.uber.org/zap"

	"hermesd/agent/memory/provider"
	"hermesd/gateway/store"
)

// merge makes a turn that was not told yet one event with those that follow it, and stores
// that: whenever it is sent again, also after an end of the process, it is the same. It
// reports false if it is not to be sent now.
func (s *Service) merge(ctx context.Context, q store.QueuedEvent, r *row) bool {
	waiting, err := s.parts.Store.QueuedEvents(ctx, Queue, q.Group)
	if err == nil && (len(waiting) == 0 || waiting[0].ID != q.ID) {
		return false // it was dropped
	}
	settled := store.EventSettlement{Queue: Queue, ID: q.ID, Due: q.Due}
	size := len(q.Doc)
	for i := 1; err == nil && i < min(len(waiting), s.about().Batch.Turns); i++ {
		var next row
		w := waiting[i]
		if size += len(w.Doc); size > maxBatch || w.Tries > 0 || json.Unmarshal(w.Doc, &next) != nil || next.Provider != r.Provider || next.Event.Kind != provider.Turn || next.Event.Scope != r.Event.Scope {
			break
		}
		r.Event.Messages = append(r.Event.Messages, next.Event.Messages...)
		settled.Merged = append(settled.Merged, w.ID)
	}
	if err == nil {
		settled.Doc = must(json.Marshal(r))
		err = s.parts.Store.SettleEvent(ctx, settled)
	}
	if err != nil && s.ctx.Err() == nil {
		s.parts.Log.Error("cannot merge turns for the memory provider", zap.Error(err))
		s.mu.Lock()
		s.hold = time.Now().Add(storePause)
		s.mu.Unlock()
	}
	return err == nil
}
