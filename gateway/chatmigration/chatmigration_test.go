package chatmigration_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"

	"hermesd/gateway/chat"
	"hermesd/gateway/chatmigration"
)

// values are values in memory.
type values struct {
	kept   map[string][]byte
	refuse error
}

func (v *values) Value(_ context.Context, key string) ([]byte, error) { return v.kept[key], nil }

func (v *values) SetValue(_ context.Context, key string, raw []byte) error {
	if v.refuse == nil {
		v.kept[key] = raw
	}
	return v.refuse
}

func (v *values) EditValue(ctx context.Context, key string, change func([]byte) ([]byte, error)) error {
	raw, err := change(v.kept[key])
	return errors.Join(err, v.SetValue(ctx, key, raw))
}

func group(id string) chat.Address {
	return chat.Address{Platform: chat.Telegram, Kind: chat.Group, Chat: id}
}

func open(t *testing.T, v *values) *chatmigration.Registry {
	t.Helper()
	b, err := chatmigration.Open(t.Context(), v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func add(t *testing.T, b *chatmigration.Registry, pairs ...string) {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if err := b.Add(t.Context(), group(pairs[i]), group(pairs[i+1])); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCurrentAfterRestart(t *testing.T) {
	v := &values{kept: map[string][]byte{}}
	add(t, open(t, v), "-1", "-2", "-1", "-2", "-2", "-3", "-7", "-8")
	b := open(t, v)
	for from, want := range map[string]string{"-1": "-3", "-2": "-3", "-3": "-3", "-7": "-8", "-9": "-9"} {
		if got := b.Current(group(from)); got != group(want) {
			t.Errorf("%s is now %+v, want %s", from, got, want)
		}
	}
	if got := b.Previous(group("-3")); !slices.Equal(got, []string{"-2", "-1"}) {
		t.Errorf("-3 was %v", got)
	}
	if got := b.Previous(group("-1")); got != nil {
		t.Errorf("-1 was %v", got)
	}
	topic := group("-1")
	topic.Kind, topic.Thread = chat.Thread, "5"
	if got := b.Current(topic); got.Chat != "-3" || got.Thread != "5" || got.Kind != chat.Thread {
		t.Errorf("a topic is %+v", got)
	}
}

func TestCurrentOfOtherAccounts(t *testing.T) {
	b := open(t, &values{kept: map[string][]byte{}})
	add(t, b, "-1", "-2")
	for _, other := range []chat.Address{{Platform: chat.Slack, Chat: "-1"}, {Platform: chat.Telegram, Account: "work", Chat: "-1"}} {
		if got := b.Current(other); got != other {
			t.Errorf("%+v is %+v", other, got)
		}
	}
	if got := b.Previous(chat.Address{Platform: chat.Telegram, Account: "work", Chat: "-2"}); got != nil {
		t.Errorf("was %v", got)
	}
}

func TestAddMigrationBack(t *testing.T) {
	b := open(t, &values{kept: map[string][]byte{}})
	add(t, b, "-1", "-2", "-2", "-1")
	if got := b.Current(group("-1")); got != group("-1") {
		t.Errorf("-1 is %+v", got)
	}
	if got := b.Current(group("-2")); got != group("-1") {
		t.Errorf("-2 is %+v", got)
	}
}

func TestAddStoreError(t *testing.T) {
	v := &values{kept: map[string][]byte{}, refuse: errors.New("full")}
	b := open(t, v)
	if err := b.Add(t.Context(), group("-1"), group("-2")); !errors.Is(err, v.refuse) {
		t.Errorf("got %v", err)
	}
	if got := b.Current(group("-1")); got != group("-1") {
		t.Errorf("-1 is %+v", got)
	}
	v.kept["moves"] = []byte("{")
	if _, err := chatmigration.Open(t.Context(), v); err == nil {
		t.Error("a book that cannot be read is an empty one")
	}
}

func TestRegistryIsBounded(t *testing.T) {
	b := open(t, &values{kept: map[string][]byte{}})
	for i := range 1001 {
		add(t, b, strconv.Itoa(10*i), strconv.Itoa(10*i+1))
	}
	if got := b.Current(group("0")); got != group("0") {
		t.Errorf("the oldest is %+v", got)
	}
	if got := b.Current(group("10")); got != group("11") {
		t.Errorf("the next is %+v", got)
	}
}

func TestNilRegistry(t *testing.T) {
	var b *chatmigration.Registry
	if err := b.Add(t.Context(), group("-1"), group("-2")); err != nil || b.Current(group("-1")) != group("-1") || b.Previous(group("-2")) != nil {
		t.Error("it has", err)
	}
}
