package inbound_test

import (
	"encoding/json"
	"testing"

	"hermesd/adapters/discord/internal/inbound"
)

const listing = `{"id":"1","name":"G","roles":[{"id":"77","tags":{"bot_id":"900"}},{"id":"78"},null],
	"channels":[{"id":"20","name":"general","type":0,"last_message_id":"500"},null,{"id":"21","name":"forum","type":15}],
	"threads":[{"id":"30","name":"topic","type":11,"parent_id":"20","owner_id":"900"}]}`

func apply(d *inbound.Directory, kind, raw string) string { return d.Apply(kind, json.RawMessage(raw)) }

func TestTheDirectory(t *testing.T) {
	d := inbound.NewDirectory()
	d.Me("900")
	if got := apply(d, "GUILD_CREATE", listing); got != "1" {
		t.Fatalf("listed %q", got)
	}
	p, ok := d.Channel("20")
	if want := (inbound.ChannelInfo{ID: "20", Guild: "1", Name: "general", GuildName: "G", Last: "500", Role: "77"}); !ok || p != want {
		t.Errorf("%+v", p)
	}
	p, ok = d.Channel("30")
	if want := (inbound.ChannelInfo{ID: "30", Guild: "1", Parent: "20", Name: "topic", ParentName: "general", GuildName: "G", Type: 11, Ours: true, Role: "77"}); !ok || p != want {
		t.Errorf("%+v", p)
	}
	apply(d, "THREAD_CREATE", `{"id":"31","guild_id":"1","type":11,"parent_id":"20","name":"new"}`)
	apply(d, "CHANNEL_UPDATE", `{"id":"20","guild_id":"1","type":0,"name":"lobby"}`)
	if p, _ = d.Channel("31"); p.Parent != "20" || p.ParentName != "lobby" {
		t.Errorf("%+v", p)
	}
	apply(d, "THREAD_LIST_SYNC", `{"guild_id":"1","threads":[{"id":"32","type":12,"parent_id":"20"}]}`)
	if p, ok = d.Channel("32"); !ok || p.Guild != "1" || !p.Thread() {
		t.Errorf("%+v", p)
	}
	apply(d, "THREAD_DELETE", `{"id":"31"}`)
	if _, ok = d.Channel("31"); ok {
		t.Error("a deleted thread is still there")
	}
	apply(d, "GUILD_DELETE", `{"id":"1","unavailable":true}`)
	if _, ok = d.Channel("20"); !ok {
		t.Error("an outage takes the channels away")
	}
	apply(d, "GUILD_DELETE", `{"id":"1"}`)
	if _, ok = d.Channel("20"); ok {
		t.Error("a guild that was left is still there")
	}
}

func TestTheDirectoryLearnsItsRole(t *testing.T) {
	d := inbound.NewDirectory()
	d.Me("900")
	apply(d, "GUILD_CREATE", `{"id":"1","channels":[{"id":"20","type":0}]}`)
	apply(d, "GUILD_ROLE_CREATE", `{"guild_id":"1","role":{"id":"79","tags":{"bot_id":"900"}}}`)
	apply(d, "GUILD_ROLE_CREATE", `{"guild_id":"1","role":{"id":"80","tags":{"bot_id":"901"}}}`)
	if p, _ := d.Channel("20"); p.Role != "79" {
		t.Errorf("%+v", p)
	}
}

func FuzzDirectory(f *testing.F) {
	f.Add("GUILD_CREATE", listing)
	f.Add("GUILD_ROLE_UPDATE", `{"guild_id":"1","role":null}`)
	f.Add("THREAD_LIST_SYNC", `null`)
	f.Fuzz(func(t *testing.T, kind, raw string) {
		d := inbound.NewDirectory()
		d.Me("900")
		apply(d, kind, raw)
		apply(d, kind, raw)
		d.Learn(json.RawMessage(raw))
		d.Channel("20")
	})
}
