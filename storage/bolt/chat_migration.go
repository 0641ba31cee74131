package bolt

import (
	"bytes"
	"context"
	"strings"

	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
	"hermesd/gateway/session"
)

// MigrateChat makes what belongs to the chat at from, threads included, belong to to.
// rekey is given records whose At is the new address already; it must be pure.
//
// Entries that are claimed stay in their lane until they are done: what their
// turn commits follows the chat. A conversation that has begun at the new
// address meanwhile stays the current one there; the old one can be resumed.
func (s *Store) MigrateChat(ctx context.Context, from, to chat.Address, rekey func(session.Record) session.Key) error {
	if from == to {
		return nil
	}
	return s.do(ctx, "move "+from.String()+" to "+to.String(), s.o.MaxBatch, func(b *batch) error {
		m := chatMigration{b: b, from: from, to: to, rekey: rekey, keys: make(map[session.Key]session.Key)}
		if err := m.sessions(); err != nil {
			return err
		}
		if err := m.entries(); err != nil {
			return err
		}
		return m.rows()
	})
}

// readdress returns what an address becomes when the chat at from moves to to;
// ok is false if it does not belong to that chat.
func readdress(a, from, to chat.Address) (moved chat.Address, ok bool) {
	if a.WithoutThread() != from.WithoutThread() || from.Thread != "" && a.Thread != from.Thread {
		return a, false
	}
	moved = a
	moved.Platform, moved.Account, moved.Scope, moved.Chat = to.Platform, to.Account, to.Scope, to.Chat
	if a.Thread == from.Thread {
		moved.Thread = to.Thread
	}
	if a.Kind == from.Kind {
		moved.Kind = to.Kind
	}
	return moved, true
}

// A chatMigration is one call of Move.
type chatMigration struct {
	b        *batch
	from, to chat.Address
	rekey    func(session.Record) session.Key
	keys     map[session.Key]session.Key // old and new, as far as known
}

func (m *chatMigration) sessions() error {
	var found []sessionRecord
	c := m.b.bucket(bSessions).Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		content, err := checkChecksum(bSessions, k, v)
		if err != nil {
			continue // Verify names it
		}
		var rec sessionRecord
		if decode(bSessions, k, content, &rec) != nil {
			continue
		}
		if _, ok := readdress(rec.Address, m.from, m.to); ok {
			found = append(found, rec)
		}
	}
	for _, rec := range found {
		old := rec.Key
		rec.Address, _ = readdress(rec.Address, m.from, m.to)
		rec.Key = m.rekey(rec.shown())
		m.keys[old] = rec.Key
		if err := m.b.putSession(rec); err != nil {
			return err
		}
		if err := m.point(old, rec.Key); err != nil {
			return err
		}
	}
	return nil
}

// point makes the new key point to where the old one did, and lets the old one
// lead to the new one.
func (m *chatMigration) point(old, key session.Key) error {
	if old == key {
		return nil
	}
	id, err := m.b.get(bCurrent, []byte(old))
	if err != nil {
		return err
	}
	if id != nil {
		id = bytes.Clone(id)
		there, err := m.b.get(bCurrent, []byte(key))
		if err != nil {
			return err
		}
		if there == nil {
			if err := m.b.put(bCurrent, []byte(key), id); err != nil {
				return err
			}
		}
		if err := m.b.delete(bCurrent, []byte(old)); err != nil {
			return err
		}
	}
	if err := m.b.delete(bMoved, []byte(key)); err != nil { // a chat that comes back
		return err
	}
	return m.b.save(bMoved, []byte(old), migratedKey{key, m.from, m.to})
}

func (m *chatMigration) entries() error {
	lanes, err := m.b.lanes()
	if err != nil {
		return err
	}
	for _, l := range lanes {
		places, err := m.b.lane(l)
		if err != nil {
			return err
		}
		for _, p := range places {
			e, ok, err := m.b.entryAt(l, p)
			if err != nil {
				return err
			}
			if ok && p.claimed { // what its turn commits follows the chat
				if at, ok := readdress(e.Inbound.Address, m.from, m.to); ok {
					if _, err := m.key(e, at); err != nil {
						return err
					}
				}
				continue
			}
			if ok {
				if err := m.entry(e); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// key is the new key of the session of e, whose chat is now at at.
func (m *chatMigration) key(e inbox.Entry, at chat.Address) (session.Key, error) {
	if key, ok := m.keys[e.Session]; ok {
		return key, nil
	}
	key := m.rekey(session.Record{Key: e.Session, Address: at, Owner: e.Inbound.Sender.ID})
	m.keys[e.Session] = key
	return key, m.point(e.Session, key)
}

// entry moves an entry that waits to its new session and lane.
func (m *chatMigration) entry(e inbox.Entry) error {
	at, ok := readdress(e.Inbound.Address, m.from, m.to)
	if !ok {
		return nil
	}
	key, err := m.key(e, at)
	if err != nil {
		return err
	}
	if err := m.b.delete(bLanes, laneKey(e.Lane, e.ID)); err != nil {
		return err
	}
	m.b.count(e.Lane, e.State, "")
	if suffix, ok := strings.CutPrefix(string(e.Lane), string(e.Session)); ok {
		e.Lane = inbox.Lane(string(key) + suffix)
	}
	e.Session, e.Inbound.Address = key, at
	if err := m.b.putEntry(e, ""); err != nil {
		return err
	}
	t, ok, err := m.b.turn(e.Turn)
	if e.Turn == "" || err != nil || !ok || t.Lane == e.Lane {
		return err
	}
	t.Lane = e.Lane
	return m.b.saveTurn(t)
}

func (m *chatMigration) rows() error {
	for _, a := range m.b.addresses() {
		if moved, ok := readdress(a, m.from, m.to); ok {
			if err := m.b.moveQueue(a, moved); err != nil {
				return err
			}
		}
	}
	return nil
}
