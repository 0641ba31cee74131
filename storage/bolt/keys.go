package bolt

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"

	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
	"hermesd/gateway/session"
)

// Names of the buckets.
const (
	bMeta         = "meta"
	bEntries      = "entries"
	bLanes        = "lanes"
	bKeys         = "keys"
	bAges         = "ages"
	bTurns        = "turns"
	bSteps        = "steps"
	bRows         = "rows"
	bQueues       = "queues"
	bDead         = "dead"
	bSessions     = "sessions"
	bPrompts      = "prompts"
	bCurrent      = "current"
	bRecent       = "recent"
	bTranscripts  = "transcripts"
	bCalls        = "calls"
	bEngines      = "engines"
	bMigratedKeys = "moved"
	bValues       = "values"
	bDamaged      = "damaged"
	bJobs         = "jobs"
	bOccurrences  = "slots"
	bEvents       = "events"
	bEventIndex   = "eventindex"
)

func buckets() []string {
	return []string{
		bMeta, bEntries, bLanes, bKeys, bAges, bTurns, bSteps, bRows, bQueues, bDead,
		bSessions, bPrompts, bCurrent, bRecent, bTranscripts, bCalls, bEngines, bMigratedKeys, bValues, bDamaged, bJobs, bOccurrences,
	}
}

// eventBuckets returns the buckets that the first event creates. Stores that never had
// one lack them, and versions that know no events ignore them.
func eventBuckets() []string { return []string{bEvents, bEventIndex} }

// isAppendMostly reports whether the keys of a bucket mostly grow, so that its
// pages can be full.
func isAppendMostly(bucket string) bool {
	switch bucket {
	case bEntries, bAges, bTurns, bSteps, bRows, bTranscripts, bCalls, bRecent, bDead, bEvents:
		return true
	}
	return false
}

var errMalformedKey = errors.New("malformed key")

func idKey(id uint64) []byte { return binary.BigEndian.AppendUint64(nil, id) }

// keyID returns the ID at the end of a key.
func keyID(k []byte) uint64 {
	if len(k) < 8 {
		return 0
	}
	return binary.BigEndian.Uint64(k[len(k)-8:])
}

func lanePrefix(l inbox.Lane) []byte { return appendField(nil, string(l)) }

func laneKey(l inbox.Lane, id inbox.ID) []byte {
	return binary.BigEndian.AppendUint64(lanePrefix(l), uint64(id))
}

func parseLaneKey(k []byte) (inbox.Lane, inbox.ID, error) {
	s, rest, err := cutField(k)
	if err != nil || len(rest) != 8 {
		return "", 0, errMalformedKey
	}
	return inbox.Lane(s), inbox.ID(binary.BigEndian.Uint64(rest)), nil
}

func queuePrefix(a chat.Address) []byte {
	var k []byte
	for _, s := range []string{string(a.Platform), a.Account, string(a.Kind), a.Scope, a.Chat, a.Thread} {
		k = appendField(k, s)
	}
	return k
}

func queueKey(a chat.Address, id uint64) []byte {
	return binary.BigEndian.AppendUint64(queuePrefix(a), id)
}

func parseQueueKey(k []byte) (chat.Address, uint64, error) {
	var f [6]string
	var err error
	for i := range f {
		if f[i], k, err = cutField(k); err != nil {
			return chat.Address{}, 0, err
		}
	}
	if len(k) != 8 {
		return chat.Address{}, 0, errMalformedKey
	}
	a := chat.Address{Platform: chat.Platform(f[0]), Account: f[1], Kind: chat.Kind(f[2]), Scope: f[3], Chat: f[4], Thread: f[5]}
	return a, binary.BigEndian.Uint64(k), nil
}

// appendField appends s with its length, so that fields cannot run into each
// other.
func appendField(k []byte, s string) []byte {
	k = binary.BigEndian.AppendUint16(k, uint16(min(len(s), 1<<16-1)))
	return append(k, s...)
}

func cutField(k []byte) (string, []byte, error) {
	if len(k) < 2 {
		return "", nil, errMalformedKey
	}
	n := int(binary.BigEndian.Uint16(k))
	if len(k) < 2+n {
		return "", nil, errMalformedKey
	}
	return string(k[2 : 2+n]), k[2+n:], nil
}

// maxPlainKey is the maximum length of an idempotency key, or of a name of an event,
// that is stored as it is; longer ones are stored as hashes.
const maxPlainKey = 1 << 10

// idempotencyKey returns the key under which the idempotency key of an event is
// stored.
func idempotencyKey(from chat.Address, key string) []byte {
	return append(appendField(appendField(nil, string(from.Platform)), from.Account), boundedKey(key)...)
}

// boundedKey returns key, or its hash if it is too long.
func boundedKey(key string) string {
	if len(key) <= maxPlainKey {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return "sha256:" + hex.EncodeToString(sum[:])
}

func stepPrefix(turn string) []byte { return append([]byte(turn), 0) }

func stepKey(turn string, n int) []byte {
	return binary.BigEndian.AppendUint32(stepPrefix(turn), uint32(n))
}

func transcriptPrefix(id session.ID) []byte { return append([]byte(id), 0) }

func transcriptKey(id session.ID, n int) []byte {
	return binary.BigEndian.AppendUint32(transcriptPrefix(id), uint32(n))
}

func recentKey(r session.Record) []byte {
	k := binary.BigEndian.AppendUint64(nil, uint64(max(r.Updated.UnixNano(), 0)))
	return append(k, r.ID...)
}

// recordName describes a record for people.
func recordName(bucket string, k []byte) string {
	if len(k) > maxPlainKey { // in a damaged page a key can have any length
		return fmt.Sprintf("%s %q…", singular(bucket), k[:64])
	}
	switch bucket {
	case bEntries, bAges:
		return fmt.Sprintf("%s m%d", singular(bucket), keyID(k))
	case bRows, bDead:
		return fmt.Sprintf("%s o%d", singular(bucket), keyID(k))
	case bLanes:
		if l, id, err := parseLaneKey(k); err == nil {
			return fmt.Sprintf("position of m%d in lane %q", id, l)
		}
	case bQueues:
		if a, id, err := parseQueueKey(k); err == nil {
			return fmt.Sprintf("position of o%d in the queue of %s", id, a)
		}
	case bEvents:
		if queue, _, err := cutField(k); err == nil {
			return fmt.Sprintf("event %d of queue %q", keyID(k), queue)
		}
	case bTranscripts, bSteps, bCalls:
		if len(k) > 5 {
			return fmt.Sprintf("%s %q number %d", singular(bucket), k[:len(k)-5], binary.BigEndian.Uint32(k[len(k)-4:]))
		}
	}
	return fmt.Sprintf("%s %q", singular(bucket), k)
}

func singular(bucket string) string {
	switch bucket {
	case bEntries:
		return "entry"
	case bOccurrences:
		return "occurrence"
	case bMeta, bCurrent, bMigratedKeys, bDamaged, bDead, bRecent, bEventIndex:
		return "record " + bucket
	}
	return bucket[:len(bucket)-1]
}
