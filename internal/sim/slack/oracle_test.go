package slack_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	slackgo "github.com/slack-go/slack"
	"github.com/slack-go/slack/slacktest"

	"hermesd/internal/sim/slack"
)

// TestAgainstSlacktest compares the answers with those of slack-go's own test
// server: where that server implements a method, this one returns all of its
// keys with the same JSON types. left names the exceptions with their reasons.
func TestAgainstSlacktest(t *testing.T) {
	p := newPlace(t, slack.Options{}, slack.AppOptions{})
	theirs := slacktest.NewTestServer()
	theirs.Start()
	defer theirs.Stop()
	web := &http.Client{Transport: &http.Transport{}}
	defer web.CloseIdleConnections()
	ts := p.room.Say(p.ann, "x").TS
	for _, tc := range []struct{ method, token, body, left string }{
		{"auth.test", "", "", ""},
		{"chat.postMessage", "", "channel=" + p.room.ID() + "&text=x", "text"},                                 // Slack returns it inside message
		{"chat.postEphemeral", "", "channel=" + p.room.ID() + "&text=x&user=" + p.ann.ID(), "channel text ts"}, // Slack returns message_ts
		{"users.info", "", "user=" + p.ann.ID(), "user.color user.locale user.is_primary_owner user.is_stranger user.is_ultra_restricted user.has_2fa " +
			"user.profile.avatar_hash user.profile.status_text user.profile.status_emoji user.profile.image_24 user.profile.image_32 " +
			"user.profile.image_48 user.profile.image_72 user.profile.image_192 user.profile.image_512"},
		{"reactions.add", "", "channel=" + p.room.ID() + "&name=eyes&timestamp=" + ts, ""},
		{"apps.connections.open", p.app.Token(), "", ""},
		{"conversations.info", "", "channel=" + p.room.ID(), "channel.is_open channel.is_global_shared channel.is_pending_ext_shared channel.is_read_only " +
			"channel.is_user_deleted channel.priority channel.user channel.members channel.locale channel.properties"},
	} {
		token := tc.token
		if token == "" {
			token = p.bot.Token()
		}
		ours, err := p.post(t.Context(), token, p.APIURL()+tc.method, "application/x-www-form-urlencoded", tc.body)
		if err != nil || !ours.OK {
			t.Fatalf("%s: %+v, %v", tc.method, ours, err)
		}
		form, err := url.ParseQuery(tc.body)
		if err != nil {
			t.Fatal(err)
		}
		reference := ask(t.Context(), t, web, theirs.GetAPIURL()+tc.method, form)
		missing(t, tc.method, "", reference, ours.Raw, " "+tc.left+" ")
	}
}

func ask(ctx context.Context, t *testing.T, web *http.Client, address string, form url.Values) map[string]any {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := web.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]any{}
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatalf("%s: %v in %s", address, err, raw)
	}
	return out
}

// missing returns the keys of the reference that ours does not have, or has
// with another type.
func missing(t *testing.T, method, path string, reference, ours map[string]any, left string) {
	t.Helper()
	for key, want := range reference {
		got, ok := ours[key]
		name := path + key
		switch {
		case strings.Contains(left, " "+name+" "):
			if ok {
				t.Errorf("%s: %s is there, but said to be left out", method, name)
			}
		case !ok:
			t.Errorf("%s: %s is missing; we give %s", method, name, keys(ours))
		case want != nil && jsonType(want) != jsonType(got):
			t.Errorf("%s: %s is %s, want %s", method, name, jsonType(got), jsonType(want))
		case jsonType(want) == "object":
			missing(t, method, name+".", want.(map[string]any), got.(map[string]any), left)
		}
	}
}

func jsonType(v any) string {
	switch v.(type) {
	case map[string]any:
		return "object"
	case []any:
		return "array"
	case string:
		return "string"
	case float64:
		return "number"
	case bool:
		return "bool"
	}
	return "null"
}

// TestOurMessagesAreSlackGos checks that decoding the API's and the events'
// messages into slack-go's types loses nothing that an app needs.
func TestOurMessagesAreSlackGos(t *testing.T) {
	p := newPlace(t, slack.Options{}, slack.AppOptions{})
	p.room.Upload(p.ann, "look", &slack.File{Name: "a.txt", Data: []byte("x")})
	root := p.post1(t, p.room, "root", "blocks", buttons, "metadata", `{"event_type":"e","event_payload":{"k":"v"}}`)
	p.room.Post(slack.Post{From: p.ann, Text: "both", Thread: root, Broadcast: true})
	_ = p.room.React(p.ann, root, "eyes")
	a := p.call(t, "conversations.history", "channel", p.room.ID(), "include_all_metadata", "1")
	raw, err := json.Marshal(a.Raw["messages"])
	if err != nil {
		t.Fatal(err)
	}
	var list []slackgo.Message
	if err := json.Unmarshal(raw, &list); err != nil || len(list) != 3 {
		t.Fatalf("%v in %s", err, raw)
	}
	both, mine, file := list[0], list[1], list[2]
	if both.SubType != "thread_broadcast" || both.Root == nil || both.Root.Timestamp != root || both.ParentUserId != p.bot.User().ID() {
		t.Errorf("broadcast: %+v", both)
	}
	if len(mine.Blocks.BlockSet) != 2 || mine.Metadata.EventPayload["k"] != "v" || mine.Reactions[0].Count != 1 || mine.ReplyCount != 1 ||
		mine.BotProfile.AppID != p.app.ID() || mine.BotID != p.bot.BotID() {
		t.Errorf("own: %+v", mine)
	}
	if f := file.Files[0]; f.Mimetype != "text/plain" || f.Size != 1 || f.URLPrivateDownload == "" || file.ClientMsgID != "" {
		t.Errorf("file: %+v", f)
	}
}
