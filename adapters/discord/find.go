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
	// findPages is the number of history pages that are searched for an own
	// message.
	findPages = 5
	pageSize  = 100
	// unique is the length in characters from which a text is assumed not to
	// occur twice.
	unique = 64
	// maxNonces limits the number of remembered nonces.
	maxNonces = 512
)

// nonces maps nonces to message IDs. It learns them from the answers to sends
// and from the gateway, which reports own messages too.
type nonces struct {
	mu  sync.Mutex // guards the fields below
	ids map[string]string
	old map[string]string // the previous generation
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

// Find implements chat.Finder. A nonce known from the gateway or an answer is
// proof. The history contains no nonces, so there the newest own message counts
// if it has the same text: sends to one address keep their order, so it can only
// be m. A short text may have been sent before: it does not count if others have
// written since. What is not found is sent again; Discord recognizes the repeat
// by the nonce for as long as it remembers it.
func (a *Adapter) Find(ctx context.Context, m chat.Outbound) (chat.Receipt, bool, error) {
	if id := a.nonces.get(nonce(m.ID)); id != "" {
		return chat.Receipt{ID: id}, true, nil
	}
	if checkIDs(m.To) != nil {
		return chat.Receipt{}, false, nil // m was never sent
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
		id, err = a.search(ctx, m.To.Chat, m) // m may have been sent to the channel when the thread could not be opened
	}
	if err != nil {
		return chat.Receipt{}, false, fmt.Errorf("search history: %w", apierror.SendError(err))
	}
	return chat.Receipt{ID: id}, id != "", nil
}

// search looks for the newest own message in the history of a channel, and
// returns its ID if it is m.
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

// is reports whether the own message s is m. spoken is true if others have
// written after it.
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
