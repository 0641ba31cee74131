// Package checkpoint stores across restarts which channels and threads the bot
// takes part in, and the newest message seen there. Its main type is Set.
package checkpoint

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"hermesd/adapters/slack/internal/inbound"
	"hermesd/gateway/chat"
	"hermesd/internal/backoff"
)

const (
	maxPlaces   = 500
	maxThreads  = 2000
	maxUploads  = 64
	writePace   = time.Second
	flushWithin = 2 * time.Second
	maxRooms    = 30 // per backfill
	maxTalks    = 10
)

// A record is what an account stores across restarts, as one value of bounded
// size.
type record struct {
	// Places are the channels with conversations, by ID.
	Places map[string]*channelState `json:"places,omitempty"`
	// Uploads are the latest uploaded files: Slack's file IDs by outbound ID.
	Uploads []upload `json:"uploads,omitempty"`
	// Alive is the Unix time at which the record was written.
	Alive int64 `json:"alive,omitempty"`
}

type channelState struct {
	Kind string `json:"k,omitempty"` // im, mpim or channel, as in events
	// Seen is the ts of the newest message outside of threads.
	Seen string `json:"s,omitempty"`
	Used int64  `json:"u"` // Unix time of the last message
	// Threads maps the joined threads to the newest ts of each.
	Threads map[string]string `json:"t,omitempty"`
}

type upload struct {
	Ours string `json:"o"`
	File string `json:"f"`
}

// A Set keeps a record and is safe for concurrent use. The record is written at
// most once a second, and a crash loses at most the changes of one second:
// histories are fetched a little further back, and a thread is joined again at
// the next mention.
type Set struct {
	key    string
	memory chat.Memory
	log    *zap.Logger
	dirty  chan struct{}

	mu  sync.Mutex // guards the fields below
	rec record
}

// New returns an empty set that is stored under key in m.
func New(key string, m chat.Memory, log *zap.Logger) *Set {
	return &Set{key: key, memory: m, log: log, dirty: make(chan struct{}, 1), rec: record{Places: map[string]*channelState{}}}
}

// Recall loads the record of an earlier process.
func (p *Set) Recall(ctx context.Context) {
	v, err := p.memory.Value(ctx, p.key)
	if err != nil {
		p.log.Warn("cannot load checkpoints", zap.Error(err))
		return
	}
	var rec record
	if len(v) == 0 {
		return
	}
	if err := json.Unmarshal(v, &rec); err != nil {
		p.log.Warn("cannot load checkpoints", zap.Error(err))
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, pl := range rec.Places {
		if pl != nil {
			p.rec.Places[id] = pl
		}
	}
	p.rec.Uploads, p.rec.Alive = rec.Uploads, rec.Alive
}

// Alive returns when the record was last written; the zero Time means never.
func (p *Set) Alive() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rec.Alive == 0 {
		return time.Time{}
	}
	return time.Unix(p.rec.Alive, 0)
}

// Knows reports whether a channel has a conversation.
func (p *Set) Knows(channel string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rec.Places[channel] != nil
}

// Keep writes the record whenever it has changed, until ctx ends.
func (p *Set) Keep(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			end, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushWithin)
			defer cancel()
			if err := p.Flush(end); err != nil {
				p.log.Warn("cannot save checkpoints", zap.Error(err))
			}
			return
		case <-p.dirty:
			if ctx.Err() != nil {
				continue // Flush writes it at the end
			}
			if err := p.Flush(ctx); err != nil && ctx.Err() == nil {
				p.log.Warn("cannot save checkpoints", zap.Error(err))
			}
			_ = backoff.Sleep(ctx, writePace) // the loop checks ctx
		}
	}
}

// Flush writes the record now.
func (p *Set) Flush(ctx context.Context) error {
	p.mu.Lock()
	p.rec.Alive = time.Now().Unix()
	v, err := json.Marshal(p.rec)
	p.mu.Unlock()
	if err != nil {
		return err //nolint:wrapcheck // it encodes a type of this package
	}
	return p.memory.SetValue(ctx, p.key, v) //nolint:wrapcheck // the caller adds the operation
}

func (p *Set) changed() {
	select {
	case p.dirty <- struct{}{}:
	default:
	}
}

// Joined reports whether the bot takes part in a thread.
func (p *Set) Joined(channel, thread string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	pl := p.rec.Places[channel]
	return pl != nil && pl.Threads[thread] != ""
}

// MarkSeen records a message that is stored.
func (p *Set) MarkSeen(in chat.Inbound) {
	if _, ok := inbound.Time(in.ID); !ok || in.Kind != chat.Message {
		return // a slash command is not a message
	}
	meant := in.Addressed && in.IgnoreRule == ""
	p.mu.Lock()
	defer p.mu.Unlock()
	pl := p.rec.Places[in.Address.Chat]
	if pl == nil {
		if !meant {
			return
		}
		pl = p.addLocked(in.Address)
	}
	thread := in.Address.Thread
	if thread == "" || thread == in.ID {
		pl.Seen = later(pl.Seen, in.ID)
	}
	if thread != "" && (meant || pl.Threads[thread] != "") {
		p.joinLocked(pl, thread, in.ID)
	}
	pl.Used = max(pl.Used, in.SentAt.Unix())
	p.changed()
}

// MarkSpoken records a message of the bot at the address to. Earlier messages of
// others need not have been seen.
func (p *Set) MarkSpoken(to chat.Address, id string) {
	if to.Thread == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	pl := p.rec.Places[to.Chat]
	if pl == nil {
		pl = p.addLocked(to)
	}
	if pl.Threads[to.Thread] == "" {
		p.joinLocked(pl, to.Thread, cmp.Or(id, to.Thread))
		p.changed()
	}
}

func (p *Set) addLocked(at chat.Address) *channelState {
	pl := &channelState{Kind: "channel", Used: time.Now().Unix()}
	switch at.Kind {
	case chat.DM:
		pl.Kind = "im"
	case chat.Group: // a group direct message, or a channel without threads
		pl.Kind = ""
	}
	if len(p.rec.Places) >= maxPlaces {
		ids := slices.SortedFunc(maps.Keys(p.rec.Places), func(a, b string) int {
			return cmp.Compare(p.rec.Places[a].Used, p.rec.Places[b].Used)
		})
		for _, id := range ids[:len(ids)/2] {
			delete(p.rec.Places, id)
		}
	}
	p.rec.Places[at.Chat] = pl
	return pl
}

func (p *Set) joinLocked(pl *channelState, thread, ts string) {
	if pl.Threads == nil {
		pl.Threads = map[string]string{}
	}
	pl.Threads[thread] = later(pl.Threads[thread], ts)
	n := 0
	for _, q := range p.rec.Places {
		n += len(q.Threads)
	}
	if n <= maxThreads {
		return
	}
	var all []string // the newest ts of each thread
	for _, q := range p.rec.Places {
		all = slices.AppendSeq(all, maps.Values(q.Threads))
	}
	slices.Sort(all)
	limit := all[len(all)/2]
	for _, q := range p.rec.Places {
		maps.DeleteFunc(q.Threads, func(_, seen string) bool { return seen < limit })
	}
}

func later(a, b string) string {
	if inbound.After(b, a) {
		return b
	}
	return a
}

// A HistoryRequest is a channel or thread whose history is to be fetched.
type HistoryRequest struct {
	Channel, Kind, Thread string
	Seen                  string // ts of the newest message seen there
}

// HistoryRequests returns the channels used since a time, the most recently used
// first, then the threads; both are limited in number. left is the number of
// omitted ones.
func (p *Set) HistoryRequests(since time.Time) (out []HistoryRequest, left int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var threads []HistoryRequest
	ids := slices.SortedFunc(maps.Keys(p.rec.Places), func(a, b string) int {
		return cmp.Or(cmp.Compare(p.rec.Places[b].Used, p.rec.Places[a].Used), cmp.Compare(a, b))
	})
	for _, id := range ids {
		pl := p.rec.Places[id]
		if pl.Used < since.Unix() {
			break
		}
		if pl.Seen != "" {
			out = append(out, HistoryRequest{Channel: id, Kind: pl.Kind, Seen: pl.Seen})
		}
		for thread, seen := range pl.Threads {
			if at, ok := inbound.Time(seen); ok && at.After(since) {
				threads = append(threads, HistoryRequest{Channel: id, Kind: pl.Kind, Thread: thread, Seen: seen})
			}
		}
	}
	slices.SortFunc(threads, func(a, b HistoryRequest) int { return cmp.Compare(b.Seen, a.Seen) })
	left = max(0, len(out)-maxRooms) + max(0, len(threads)-maxTalks)
	return append(out[:min(len(out), maxRooms)], threads[:min(len(threads), maxTalks)]...), left
}

// Uploading stores under which ID Slack has a file, before the file is visible.
func (p *Set) Uploading(ctx context.Context, ours, file string) error {
	p.mu.Lock()
	p.rec.Uploads = append(p.rec.Uploads, upload{ours, file})
	if n := len(p.rec.Uploads) - maxUploads; n > 0 {
		p.rec.Uploads = slices.Clone(p.rec.Uploads[n:])
	}
	p.mu.Unlock()
	return p.Flush(ctx)
}

// Uploaded returns the IDs of the files that were uploaded under an outbound ID,
// the newest first. sure is false if there may have been others.
func (p *Set) Uploaded(ours string) (files []string, sure bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, u := range slices.Backward(p.rec.Uploads) {
		if u.Ours == ours {
			files = append(files, u.File)
		}
	}
	return files, len(p.rec.Uploads) < maxUploads
}
