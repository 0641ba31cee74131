package bolt

import (
	"bytes"
	"context"
	"strings"

	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
	"hermesd/gateway/session"
)

// MigrateChat moves everything that belongs to the chat at from, including its
// threads, to the address to. rekey gets records that already have the new
// address; it must be pure.
//
// Claimed entries stay in their lane until they are done: the commit of their
// turn follows the chat. A conversation that has started at the new address in
// the meantime stays the current one there; the old one can be resumed.
func (s *Store) MigrateChat(ctx context.Context, from, to chat.Address, rekey func(session.Record) session.Key) error {
	if from == to {
		return nil
	}
	return s.do(ctx, "migrate "+from.String()+" to "+to.String(), maxBatch, func(b *batch) error {
		m := chatMigration{b: b, from: from, to: to, rekey: rekey, keys: make(map[session.Key]session.Key)}
		if err := m.migrateSessions(); err != nil {
			return err
		}
		if err := m.migrateEntries(); err != nil {
			return err
		}
		return m.migrateRows()
	})
}

// migrateAddress returns what address a becomes when the chat at from migrates
// to to; ok is false if a does not belong to that chat.
func migrateAddress(a, from, to chat.Address) (moved chat.Address, ok bool) {
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

// A chatMigration is one call of MigrateChat.
type chatMigration struct {
	b        *batch
	from, to chat.Address
	rekey    func(session.Record) session.Key
	keys     map[session.Key]session.Key // old to new, as far as known
}

func (m *chatMigration) migrateSessions() error {
	var found []sessionRecord
	for _, rec := range records[sessionRecord](m.b.reader, bSessions, nil) {
		if _, ok := migrateAddress(rec.Address, m.from, m.to); ok {
			found = append(found, rec)
		}
	}
	for _, rec := range found {
		old := rec.Key
		rec.Address, _ = migrateAddress(rec.Address, m.from, m.to)
		rec.Key = m.rekey(rec.effective())
		m.keys[old] = rec.Key
		if err := m.b.putSession(rec); err != nil {
			return err
		}
		if err := m.redirect(old, rec.Key); err != nil {
			return err
		}
	}
	return nil
}

// redirect makes the new key point to the session of the old one, and the old
// key lead to the new one.
func (m *chatMigration) redirect(old, key session.Key) error {
	if old == key {
		return nil
	}
	id, err := m.b.get(bCurrent, []byte(old))
	if err != nil {
		return err
	}
	if id != nil {
		id = bytes.Clone(id)
		existing, err := m.b.get(bCurrent, []byte(key))
		if err != nil {
			return err
		}
		if existing == nil {
			if err := m.b.put(bCurrent, []byte(key), id); err != nil {
				return err
			}
		}
		if err := m.b.delete(bCurrent, []byte(old)); err != nil {
			return err
		}
	}
	if err := m.b.delete(bMigratedKeys, []byte(key)); err != nil { // the chat may migrate back
		return err
	}
	return m.b.save(bMigratedKeys, []byte(old), migratedKey{key, m.from, m.to})
}

func (m *chatMigration) migrateEntries() error {
	lanes, err := m.b.lanes()
	if err != nil {
		return err
	}
	for _, l := range lanes {
		positions, err := m.b.lanePositions(l)
		if err != nil {
			return err
		}
		for _, p := range positions {
			e, ok, err := m.b.entryAt(l, p)
			if err != nil {
				return err
			}
			if ok && p.isClaimed { // its commit follows the chat
				if at, ok := migrateAddress(e.Inbound.Address, m.from, m.to); ok {
					if _, err := m.migrateKey(e, at); err != nil {
						return err
					}
				}
				continue
			}
			if ok {
				if err := m.migrateEntry(e); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// migrateKey returns the new key of the session of e, whose chat is now at at.
func (m *chatMigration) migrateKey(e inbox.Entry, at chat.Address) (session.Key, error) {
	if key, ok := m.keys[e.Session]; ok {
		return key, nil
	}
	key := m.rekey(session.Record{Key: e.Session, Address: at, Owner: e.Inbound.Sender.ID})
	m.keys[e.Session] = key
	return key, m.redirect(e.Session, key)
}

// migrateEntry moves a waiting entry to its new session and lane.
func (m *chatMigration) migrateEntry(e inbox.Entry) error {
	at, ok := migrateAddress(e.Inbound.Address, m.from, m.to)
	if !ok {
		return nil
	}
	key, err := m.migrateKey(e, at)
	if err != nil {
		return err
	}
	if err := m.b.delete(bLanes, laneKey(e.Lane, e.ID)); err != nil {
		return err
	}
	m.b.countState(e.Lane, e.State, "")
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

func (m *chatMigration) migrateRows() error {
	for _, a := range m.b.addresses() {
		if moved, ok := migrateAddress(a, m.from, m.to); ok {
			if err := m.b.migrateQueue(a, moved); err != nil {
				return err
			}
		}
	}
	return nil
}
