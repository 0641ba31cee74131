package store

import (
	"context"
	"encoding/json"
	"fmt"

	"hermesd/gateway/chat"
)

// Values are small values by key. Adapters store theirs through chat.Memory, the view
// that they are given.
type Values interface {
	chat.Memory
	// EditValue stores what change makes of the value under key; nil is no value. No
	// other write of the value comes between. change may be called more than once, and
	// must not call the store; if it fails nothing is stored.
	EditValue(ctx context.Context, key string, change func(old []byte) ([]byte, error)) error
}

// Load returns the value under key; the zero T if there is none.
func Load[T any](ctx context.Context, s Values, key string) (v T, err error) {
	raw, err := s.Value(ctx, key)
	if err != nil {
		return v, err
	}
	return decodeValue[T](key, raw)
}

// Save replaces the value under key.
func Save[T any](ctx context.Context, s Values, key string, v T) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode value %s: %w", key, err)
	}
	return s.SetValue(ctx, key, raw)
}

// Change replaces the value under key by what change makes of it, with the promises of
// EditValue.
func Change[T any](ctx context.Context, s Values, key string, change func(old T) (T, error)) error {
	return s.EditValue(ctx, key, func(old []byte) ([]byte, error) {
		v, err := decodeValue[T](key, old)
		if err == nil {
			v, err = change(v)
		}
		if err != nil {
			return nil, err
		}
		return json.Marshal(v)
	})
}

func decodeValue[T any](key string, raw []byte) (v T, err error) {
	if len(raw) == 0 {
		return v, nil
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return v, fmt.Errorf("decode value %s: %w", key, err)
	}
	return v, nil
}
