package discord

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"hermesd/adapters/discord/internal/apiclient"
	"hermesd/adapters/discord/internal/apierror"
	"hermesd/adapters/discord/internal/markdown"
	"hermesd/gateway/chat"
)

const (
	// findPages of history are looked through for a message of ours.
	findPages = 5
	pageSize  = 100
	// unique is how many characters make a text one that is not said twice.
	unique = 64
	// maxNonces bounds the memory of what was sent.
	maxNonces = 512
)

// nonces remembers which message came of a nonce: from the answers to sends,
// and from the gateway, which tells of own messages too.
type nonces struct {
	mu  sync.Mutex // guards what follows
	ids map[string]string
	old map[string]string // of the half before
}

func (n *nonces) put(nonce, id string) {
	if nonce == "" || id == "" {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ids == nil || len(n.ids) >= maxNonces/2 {
		n.old, n.ids = n.ids, map[string]string{}
	}
	n.ids[nonce] = id
}

func (n *nonces) get(nonce string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if id, ok := n.ids[nonce]; ok {
		return id
	}
	return n.old[nonce]
}

// Find implements chat.Finder. What the gateway or an answer has told of the
// nonce is certain. The history tells no nonces, so there the newest message of
// ours counts if it says the same: sends to one place keep their order, so that
// m can only be that one. A short text could have been said before: it does not
// count if others have spoken since. What is not found goes again, which Discord
// recognises by the nonce while it remembers it.
func (a *Adapter) Find(ctx context.Context, m chat.Outbound) (chat.Receipt, bool, error) {
	if id := a.nonces.get(nonce(m.ID)); id != "" {
		return chat.Receipt{ID: id}, true, nil
	}
	if checkIDs(m.To) != nil {
		return chat.Receipt{}, false, nil // it was never sent
	}
	if r, done, err := a.responded(ctx, m); done {
		return r, err == nil && r.ID != "", err
	}
	channel := a.target(m.To)
	id, err := a.search(ctx, channel, m)
	if apiclient.Code(err) == apierror.UnknownChannel {
		if m.To.Thread == "" || channel == m.To.Chat {
			return chat.Receipt{}, false, nil
		}
		id, err = a.search(ctx, m.To.Chat, m) // it may have been sent where the thread could not be opened
	}
	if err != nil {
		return chat.Receipt{}, false, fmt.Errorf("look through the history: %w", apierror.SendError(err))
	}
	return chat.Receipt{ID: id}, id != "", nil
}

// search looks through the history of a channel for the newest message of ours,
// and returns its id if it is m.
func (a *Adapter) search(ctx context.Context, channel string, m chat.Outbound) (string, error) {
	before, spoken := "", false
	me, want := a.Identity().ID, nonce(m.ID)
	for range findPages {
		path := fmt.Sprintf("channels/%s/messages?limit=%d", channel, pageSize)
		if before != "" {
			path += "&before=" + before
		}
		var page []sent
		if err := a.wire.Do(ctx, apiclient.Call{Method: "GET", Path: path, Bucket: "history/" + channel}, &page); err != nil {
			return "", err
		}
		for _, s := range page {
			before = s.ID
			if s.Author.ID != me {
				spoken = true
				continue
			}
			if s.is(m, want, spoken) {
				return s.ID, nil
			}
			return "", nil
		}
		if len(page) < pageSize {
			return "", nil
		}
	}
	return "", apierror.Permanent("the message may lie further back than the last %d", findPages*pageSize)
}

// is reports whether a message of ours is m. spoken says that others have
// spoken after it.
func (s sent) is(m chat.Outbound, want string, spoken bool) bool {
	var told string
	if json.Unmarshal(s.Nonce, &told) == nil && told != "" {
		return told == want
	}
	if m.File != nil && (len(s.Files) != 1 || s.Files[0].Name != fileName(*m.File)) || m.File == nil && len(s.Files) > 0 {
		return false
	}
	return s.Content == plainContent(m) && (!spoken || markdown.Len(s.Content) >= unique)
}
