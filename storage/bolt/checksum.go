package bolt

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"

	bbolt "go.etcd.io/bbolt"

	"hermesd/storage"
)

// valueVersion is the first byte of every value.
const valueVersion = 1

// valueHeaderSize is the number of bytes before the content of a value.
const valueHeaderSize = 5

var (
	errChecksum       = errors.New("checksum mismatch")
	errTruncated      = errors.New("record is truncated")
	errUnknownVersion = errors.New("unknown record version")
)

// checksum covers bucket and key too, so that a value in a wrong place is
// noticed.
func checksum(bucket string, key, content []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	c := crc32.Update(0, table, []byte(bucket))
	c = crc32.Update(c, table, key)
	return crc32.Update(c, table, content)
}

func addChecksum(bucket string, key, content []byte) []byte {
	v := make([]byte, 0, valueHeaderSize+len(content))
	v = append(v, valueVersion)
	v = binary.LittleEndian.AppendUint32(v, checksum(bucket, key, content))
	return append(v, content...)
}

func checkChecksum(bucket string, key, v []byte) ([]byte, error) {
	switch {
	case len(v) < valueHeaderSize:
		return nil, &storage.DamageError{Record: recordName(bucket, key), Err: errTruncated}
	case v[0] != valueVersion:
		return nil, &storage.DamageError{Record: recordName(bucket, key), Err: errUnknownVersion}
	case binary.LittleEndian.Uint32(v[1:]) != checksum(bucket, key, v[valueHeaderSize:]):
		return nil, &storage.DamageError{Record: recordName(bucket, key), Err: errChecksum}
	}
	return v[valueHeaderSize:], nil
}

// A reader reads records in a transaction. Byte slices that it returns are
// valid until the transaction ends.
type reader struct{ tx *bbolt.Tx }

func (r reader) bucket(name string) *bbolt.Bucket { return r.tx.Bucket([]byte(name)) }

// get returns the content under key, nil if there is none.
func (r reader) get(bucket string, key []byte) ([]byte, error) {
	v := r.bucket(bucket).Get(key)
	if v == nil {
		return nil, nil
	}
	return checkChecksum(bucket, key, v)
}

// load decodes the record under key into v. It reports whether the record
// exists.
func (r reader) load(bucket string, key []byte, v any) (bool, error) {
	content, err := r.get(bucket, key)
	if err != nil || content == nil {
		return false, err
	}
	return true, decode(bucket, key, content, v)
}

func decode(bucket string, key, content []byte, v any) error {
	if err := json.Unmarshal(content, v); err != nil {
		return &storage.DamageError{Record: recordName(bucket, key), Err: fmt.Errorf("cannot decode: %w", err)}
	}
	return nil
}
