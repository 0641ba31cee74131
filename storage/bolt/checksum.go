package bolt

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"

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

// scan returns the records of a bucket whose keys begin with prefix, in order.
func (r reader) scan(bucket string, prefix []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(k, v []byte) bool) {
		c := r.bucket(bucket).Cursor()
		for k, v := c.Seek(prefix); k != nil && bytes.HasPrefix(k, prefix); k, v = c.Next() {
			if !yield(k, v) {
				return
			}
		}
	}
}

// records decodes the records of scan. It omits those that cannot be read; Verify
// reports them.
func records[T any](r reader, bucket string, prefix []byte) iter.Seq2[[]byte, T] {
	return func(yield func(k []byte, rec T) bool) {
		for k, v := range r.scan(bucket, prefix) {
			var rec T
			if content, err := checkChecksum(bucket, k, v); err != nil || json.Unmarshal(content, &rec) != nil {
				continue
			}
			if !yield(k, rec) {
				return
			}
		}
	}
}

// keys returns the keys of scan, which stay valid when the bucket changes.
func (r reader) keys(bucket string, prefix []byte) [][]byte {
	var keys [][]byte
	for k := range r.scan(bucket, prefix) {
		keys = append(keys, bytes.Clone(k))
	}
	return keys
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
