package discord_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hermesd/internal/sim/discord"
)

// A reply is an answer of the REST API.
type reply struct {
	Status int
	Header http.Header
	Raw    string
	List   []reply
	ID     string `json:"id"`
	Text   string `json:"content"`
	Type   int    `json:"type"`
	Nonce  string `json:"nonce"`
	Code   int    `json:"code"`
	Said   string `json:"message"`

	Referenced *reply `json:"referenced_message"`
	Mentions   []struct {
		ID string `json:"id"`
	} `json:"mentions"`
	Attachments []struct {
		URL  string `json:"url"`
		Name string `json:"filename"`
		Size int    `json:"size"`
	} `json:"attachments"`
	Meta struct {
		Archived bool `json:"archived"`
		Locked   bool `json:"locked"`
	} `json:"thread_metadata"`
}

// A web is a REST client of a place that uses no Discord library.
type web struct {
	*place
	client *http.Client
	auth   string
	agent  string
	t      *testing.T
}

func newWeb(t *testing.T, p *place) *web {
	t.Helper()
	tr := discord.Transport(p.Dial)
	t.Cleanup(tr.CloseIdleConnections)
	return &web{place: p, client: &http.Client{Transport: tr}, auth: "Bot " + p.bot.Token(), agent: "DiscordBot (x, 1)"}
}

// try sends body, which is JSON or "".
func (w *web) try(ctx context.Context, method, path, body string) (reply, error) {
	return w.send(ctx, method, path, "application/json", strings.NewReader(body))
}

func (w *web) send(ctx context.Context, method, path, kind string, body io.Reader) (reply, error) {
	url := path
	if strings.HasPrefix(path, "/") {
		url = "https://discord.com/api/v10" + path
	}
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return reply{}, err
	}
	req.Header.Set("Authorization", w.auth)
	req.Header.Set("User-Agent", w.agent)
	if req.ContentLength != 0 {
		req.Header.Set("Content-Type", kind)
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return reply{}, err
	}
	var r reply
	if bytes.HasPrefix(raw, []byte("[")) {
		err = json.Unmarshal(raw, &r.List)
	} else if len(raw) > 0 && resp.Header.Get("Content-Type") == "application/json" {
		_ = json.Unmarshal(raw, &r) // "message" is a string only in error answers
	}
	r.Status, r.Header, r.Raw = resp.StatusCode, resp.Header, string(raw)
	return r, err
}

func (w *web) do(t *testing.T, method, path, body string) reply {
	t.Helper()
	r, err := w.try(t.Context(), method, path, body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return r
}

// say sends a message to the channel of the place.
func (w *web) say(t *testing.T, body string) reply {
	t.Helper()
	return w.do(t, "POST", "/channels/"+w.ch.ID()+"/messages", body)
}

// in runs a test against a place in a bubble.
func in(t *testing.T, o discord.Options, test func(t *testing.T, w *web)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newWeb(t, newPlace(t, o))) })
}

func (r reply) short() string {
	return strings.TrimSpace(fmt.Sprintf("%d %d %s", r.Status, r.Code, r.Said))
}

func TestSendsAreRefusedAsDiscordDoes(t *testing.T) {
	long := strings.Repeat("ü", 2001)
	for _, c := range []struct{ name, body, want string }{
		{"empty", `{}`, "400 50006 Cannot send an empty message"},
		{"blank", `{"content":" \n "}`, "400 50006 Cannot send an empty message"},
		{"too long", `{"content":"` + long + `"}`, "400 50035 Invalid Form Body"},
		{"just long enough", `{"content":"` + long[2:] + `"}`, "200 0"},
		{"no JSON", `{"content":`, "400 50109 The request body contains invalid JSON."},
		{"long nonce", `{"content":"x","nonce":"12345678901234567890123456"}`, "400 50035 Invalid Form Body"},
		{"number as nonce", `{"content":"x","nonce":77}`, "200 0"},
		{"reply to nothing", `{"content":"x","message_reference":{"message_id":"1"}}`, "400 50035 Invalid Form Body"},
		{"reply to nothing, if need be", `{"content":"x","message_reference":{"message_id":"1","fail_if_not_exists":false}}`, "200 0"},
		{"component without row", `{"content":"x","components":[{"type":2}]}`, "400 50035 Invalid Form Body"},
		{"empty row", `{"content":"x","components":[{"type":1}]}`, "400 50035 Invalid Form Body"},
		{"button", `{"components":[{"type":1,"components":[{"type":2,"style":1,"label":"a","custom_id":"a"}]}]}`, "200 0"},
		{"button without id", `{"components":[{"type":1,"components":[{"type":2,"style":1}]}]}`, "400 50035 Invalid Form Body"},
		{
			"twice the same button",
			`{"components":[{"type":1,"components":[{"type":2,"custom_id":"a"},{"type":2,"custom_id":"a"}]}]}`,
			"400 50035 Invalid Form Body",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			in(t, discord.Options{}, func(t *testing.T, w *web) { want(t, c.body[:min(80, len(c.body))], w.say(t, c.body).short(), c.want) })
		})
	}
	in(t, discord.Options{}, func(t *testing.T, w *web) {
		want(t, "body", w.say(t, `{"content":"`+long+`"}`).Raw, `{"code":50035,"errors":{"content":{"_errors":[{"code":"BASE_TYPE_MAX_LENGTH",`+
			`"message":"Must be 2000 or fewer in length."}]}},"message":"Invalid Form Body"}`)
		want(t, "sent", w.Recorder().Counts().Sent, 0)
	})
}

func TestWhoMayDoWhat(t *testing.T) {
	in(t, discord.Options{}, func(t *testing.T, w *web) {
		ch := "/channels/" + w.ch.ID()
		mine := w.say(t, `{"content":"mine"}`).ID
		theirs := w.ch.Say(w.ann, "theirs").ID
		far := w.AddGuild("far", w.ann).AddChannel(discord.ChannelOptions{Name: "x"})
		shy, stranger := w.AddUser("shy"), w.AddUser("stranger")
		w.home.Join(shy)
		shy.RefuseDM(true)
		deny := func(p discord.Permission, then func()) {
			w.ch.Deny(w.home.ID(), p)
			then()
			w.ch.Allow(w.home.ID(), p)
		}
		check := func(what, method, path, body, expect string) {
			t.Helper()
			want(t, what, w.do(t, method, path, body).short(), expect)
		}
		check("unknown channel", "GET", "/channels/1", "", "404 10003 Unknown Channel")
		check("another guild", "GET", "/channels/"+far.ID(), "", "403 50001 Missing Access")
		check("unknown message", "GET", ch+"/messages/1", "", "404 10008 Unknown Message")
		check("unknown route", "GET", "/nothing", "", "404 0 404: Not Found")
		check("their message", "PATCH", ch+"/messages/"+theirs, `{"content":"x"}`, "403 50005 Cannot edit a message authored by another user")
		check("delete theirs", "DELETE", ch+"/messages/"+theirs, "", "403 50013 Missing Permissions")
		check("delete mine", "DELETE", ch+"/messages/"+mine, "", "204 0")
		check("delete again", "DELETE", ch+"/messages/"+mine, "", "404 10008 Unknown Message")
		check("an emoji", "PUT", ch+"/messages/"+theirs+"/reactions/%F0%9F%91%80/@me", "", "204 0")
		check("no emoji", "PUT", ch+"/messages/"+theirs+"/reactions/eyes/@me", "", "400 10014 Unknown Emoji")
		check("typing", "POST", ch+"/typing", "", "204 0")
		deny(discord.SendMessages, func() {
			check("muted", "POST", ch+"/messages", `{"content":"x"}`, "403 50013 Missing Permissions")
		})
		deny(discord.ViewChannel, func() {
			check("hidden", "POST", ch+"/messages", `{"content":"x"}`, "403 50001 Missing Access")
		})
		deny(discord.ReadMessageHistory, func() {
			check("reply without history", "POST", ch+"/messages", `{"content":"x","message_reference":{"message_id":"`+theirs+`"}}`,
				"403 160002 Cannot reply without permission to read message history")
			want(t, "history", w.do(t, "GET", ch+"/messages", "").Raw, "[]")
		})
		for who, expect := range map[*discord.User]string{
			w.ann: "200 0", shy: "403 50007 Cannot send messages to this user", stranger: "403 50007 Cannot send messages to this user",
		} {
			dm := w.do(t, "POST", "/users/@me/channels", `{"recipient_id":"`+who.ID+`"}`)
			want(t, "the same chat", dm.ID, who.DM(w.bot).ID())
			check("direct message", "POST", "/channels/"+dm.ID+"/messages", `{"content":"x"}`, expect)
		}
		w.ch.Remove()
		check("removed channel", "POST", ch+"/messages", `{"content":"x"}`, "404 10003 Unknown Channel")
		want(t, "refusals that count for a ban", w.Recorder().Counts().Invalid, 8)
	})
}

func TestWhoIsLetIn(t *testing.T) {
	in(t, discord.Options{InvalidRequests: 5}, func(t *testing.T, w *web) {
		good, agent := w.auth, w.agent
		for _, c := range []struct{ auth, agent, want string }{
			{good, agent, "200 0"},
			{"", agent, "401 0 401: Unauthorized"},
			{strings.TrimPrefix(good, "Bot "), agent, "401 0 401: Unauthorized"},
			{"Bot x", agent, "401 0 401: Unauthorized"},
			{good, "Go-http-client/1.1", "403 40333 internal network error"},
		} {
			w.auth, w.agent = c.auth, c.agent
			want(t, c.auth+" "+c.agent, w.do(t, "GET", "/users/@me", "").short(), c.want)
		}
		w.auth, w.agent = good, agent
		w.bot.ResetToken()
		want(t, "old token", w.do(t, "GET", "/users/@me", "").Status, 401)
		r := w.do(t, "GET", "/gateway", "") // the fifth brought a ban
		if r.Status != 429 || r.Header.Get("Content-Type") != "text/html" || r.Header.Get("Retry-After") == "" {
			t.Errorf("banned: %+v", r)
		}
		<-time.After(10 * time.Minute)
		w.auth = "Bot " + w.bot.Token()
		want(t, "new token, later", w.do(t, "GET", "/users/@me", "").Status, 200)
	})
}

func TestANonceIsRememberedForMinutes(t *testing.T) {
	in(t, discord.Options{}, func(t *testing.T, w *web) {
		const body = `{"content":"once","nonce":"n1","enforce_nonce":true}`
		first := w.say(t, body)
		want(t, "nonce", first.Nonce, "n1")
		<-time.After(2 * time.Minute)
		want(t, "again", w.say(t, body).ID, first.ID)
		want(t, "not in the history", w.do(t, "GET", "/channels/"+w.ch.ID()+"/messages/"+first.ID, "").Nonce, "")
		if w.say(t, `{"content":"once","nonce":"n1"}`).ID == first.ID {
			t.Error("a nonce that is not enforced made nothing")
		}
		<-time.After(2 * time.Minute)
		second := w.say(t, body) // the nonce of the unenforced one is still known
		<-time.After(4 * time.Minute)
		third := w.say(t, body)
		if second.ID == first.ID || third.ID == second.ID {
			t.Errorf("remembered for too long: %s %s %s", first.ID, second.ID, third.ID)
		}
		want(t, "delete", w.do(t, "DELETE", "/channels/"+w.ch.ID()+"/messages/"+third.ID, "").Status, 204)
		want(t, "deleted, not made again", w.say(t, body).short(), "404 10008 Unknown Message")
		n := w.Recorder().Counts()
		want(t, "made and repeated", fmt.Sprint(n.Sent, n.Repeated), "3 2")
	})
}

func TestHistoryComesInPagesNewestFirst(t *testing.T) {
	in(t, discord.Options{}, func(t *testing.T, w *web) {
		var ids []string
		for i := range 9 {
			ids = append(ids, w.ch.Say(w.ann, fmt.Sprint(i)).ID)
		}
		_ = w.ch.Delete(ids[4])
		for query, expect := range map[string]string{
			"":                                     "8 7 6 5 3 2 1 0",
			"?limit=2":                             "8 7",
			"?limit=2&after=" + ids[1]:             "3 2",
			"?limit=2&after=0":                     "1 0",
			"?limit=3&before=" + ids[5]:            "3 2 1",
			"?limit=3&around=" + ids[2]:            "3 2 1",
			"?after=" + ids[8]:                     "",
			"?limit=100&after=" + ids[4]:           "8 7 6 5",
			"?before=" + ids[0]:                    "",
			"?limit=1&after=18446744073709551614 ": "",
		} {
			r := w.do(t, "GET", "/channels/"+w.ch.ID()+"/messages"+strings.TrimSpace(query), "")
			var texts []string
			for _, m := range r.List {
				texts = append(texts, m.Text)
			}
			want(t, query, strings.Join(texts, " "), expect)
		}
		for _, limit := range []string{"0", "101", "x"} {
			want(t, limit, w.do(t, "GET", "/channels/"+w.ch.ID()+"/messages?limit="+limit, "").short(), "400 50035 Invalid Form Body")
		}
	})
}

func TestMentionsRingOnlyWhoIsAllowed(t *testing.T) {
	in(t, discord.Options{}, func(t *testing.T, w *web) {
		text := "@everyone " + w.ann.Mention() + " <@77>"
		ring := func(extra string) string {
			m, _ := w.ch.Message(w.say(t, `{"content":"`+text+`"`+extra+`}`).ID)
			return fmt.Sprint(len(m.Mentions), m.Everyone)
		}
		want(t, "no permission for everyone", ring(""), "1 false")
		w.ch.Allow(w.bot.ID(), discord.MentionEveryone)
		want(t, "all", ring(""), "1 true")
		want(t, "none", ring(`,"allowed_mentions":{"parse":[]}`), "0 false")
		want(t, "users", ring(`,"allowed_mentions":{"parse":["users"]}`), "1 false")
		want(t, "one", ring(`,"allowed_mentions":{"parse":[],"users":["`+w.ann.ID+`"]}`), "1 false")
		text = "x"
		to := w.ch.Say(w.ann, "?").ID
		ref := `,"message_reference":{"message_id":"` + to + `"}`
		want(t, "reply", ring(ref), "1 false")
		want(t, "silent reply", ring(ref+`,"allowed_mentions":{"parse":["users"],"replied_user":false}`), "0 false")
	})
}

func TestFilesComeInAndGoOut(t *testing.T) {
	in(t, discord.Options{}, func(t *testing.T, w *web) {
		var b bytes.Buffer
		form := multipart.NewWriter(&b)
		_ = form.WriteField("payload_json", `{"content":"see"}`)
		part, _ := form.CreateFormFile("files[0]", "a b.txt")
		_, _ = part.Write([]byte("some text"))
		_ = form.Close()
		r, err := w.send(t.Context(), "POST", "/channels/"+w.ch.ID()+"/messages", form.FormDataContentType(), &b)
		if err != nil || r.Status != 200 || len(r.Attachments) != 1 || r.Attachments[0].Size != 9 {
			t.Fatalf("got %+v, %v", r, err)
		}
		url := r.Attachments[0].URL
		want(t, "host", strings.HasPrefix(url, "https://cdn.discordapp.com/attachments/"), true)
		w.auth, w.agent = "", "anybody"
		got := w.do(t, "GET", url, "")
		want(t, "content", got.Raw, "some text")
		want(t, "forged", w.do(t, "GET", strings.Split(url, "?")[0]+"?ex=ffffffffff&hm=1", "").Status, 404)
		<-time.After(25 * time.Hour)
		want(t, "expired", w.do(t, "GET", url, "").Status, 404)
		want(t, "half a form", w.do2(t, "multipart/form-data; boundary=x", "--x\r\nContent-Disposition: form-data; name=\"payload_json\"\r\n\r\n{"), "400 0 400: Bad Request")
		want(t, "no boundary", w.do2(t, "multipart/form-data", "x"), "400 0 400: Bad Request")
		want(t, "wrong type", w.do2(t, "text/plain", "x"), "400 50035 Invalid Form Body")
		want(t, "too large", w.do2(t, "application/json", strings.Repeat("x", 9<<20)), "413 40005 Request entity too large")
	})
}

// do2 sends a body of any content type to the channel.
func (w *web) do2(t *testing.T, kind, body string) string {
	t.Helper()
	w.auth, w.agent = "Bot "+w.bot.Token(), "DiscordBot (x, 1)"
	r, err := w.send(t.Context(), "POST", "/channels/"+w.ch.ID()+"/messages", kind, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return r.short()
}

func TestReactionsEmbedsAndLookUps(t *testing.T) {
	in(t, discord.Options{FileLimit: 8}, func(t *testing.T, w *web) {
		theirs := w.ch.Say(w.ann, "hello")
		_ = w.ch.React(w.ann, theirs.ID, "👀")
		path := "/channels/" + w.ch.ID() + "/messages/" + theirs.ID
		const eyes = "/reactions/%F0%9F%91%80/@me"
		w.do(t, "PUT", path+eyes, "")
		w.do(t, "PUT", path+eyes, "") // the second changes nothing
		want(t, "two", strings.Contains(w.do(t, "GET", path, "").Raw, `"reactions":[{"count":2,"emoji":{"id":null,"name":"👀"},"me":true}]`), true)
		w.do(t, "DELETE", path+eyes, "")
		want(t, "one", strings.Contains(w.do(t, "GET", path, "").Raw, `"reactions":[{"count":1,"emoji":{"id":null,"name":"👀"},"me":false}]`), true)
		sent := w.say(t, `{"embeds":[{"title":"T","description":"D"}]}`)
		want(t, "embed", strings.Contains(sent.Raw, `"embeds":[{"title":"T","description":"D"}]`), true)
		reply := w.ch.Reply(w.ann, sent.ID, "nice")
		want(t, "reply", w.do(t, "GET", "/channels/"+w.ch.ID()+"/messages/"+reply.ID, "").Referenced.ID, sent.ID)
		want(t, "rings", strings.Join(reply.Mentions, " "), w.bot.ID())
		silent := w.ch.Post(w.ann, discord.Post{Text: "x", ReplyTo: sent.ID, Silent: true})
		want(t, "silent", len(silent.Mentions), 0)
		want(t, "user", strings.Contains(w.do(t, "GET", "/users/"+w.ann.ID, "").Raw, `"username":"ann"`), true)
		want(t, "nobody", w.do(t, "GET", "/users/1", "").Code, 10013)
		want(t, "application", w.do(t, "GET", "/oauth2/applications/@me", "").ID, w.bot.ID())
		w.do(t, "POST", "/channels/"+w.ch.ID()+"/typing", "")
		want(t, "typed", w.ch.Typed(), 1)
		want(t, "of the guild", w.ch.Guild() == w.home && w.ch.Kind() == discord.Text, true)
		const once = `{"content":"x","nonce":"1","enforce_nonce":true}`
		first := w.say(t, once).ID
		w.bot.ForgetNonces()
		want(t, "made again", w.say(t, once).ID == first, false)
		want(t, "too large", w.do2(t, "multipart/form-data; boundary=x", "--x\r\nContent-Disposition: form-data; name=\"files[0]\"; "+
			"filename=\"a\"\r\n\r\n123456789\r\n--x--\r\n"), "413 40005 Request entity too large")
	})
}

func TestAClientMayComeByAnotherName(t *testing.T) {
	p := newPlace(t, discord.Options{})
	base, err := p.Start()
	if err != nil {
		t.Fatal(err)
	}
	w := newWeb(t, p)
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	w.client = &http.Client{Transport: tr}
	want(t, "gateway", w.do(t, "GET", base+"/api/v9/gateway", "").Raw, `{"url":"`+strings.Replace(base, "http", "ws", 1)+`"}`)
	m := w.ch.Post(w.ann, discord.Post{Files: []discord.File{{Name: "a.txt", Data: []byte("some text")}}})
	r := w.do(t, "GET", base+"/api/v9/channels/"+w.ch.ID()+"/messages/"+m.ID, "")
	want(t, "file", w.do(t, "GET", r.Attachments[0].URL, "").Raw, "some text")
	want(t, "old version", w.do(t, "GET", base+"/api/v6/users/@me", "").short(), "400 50041 Invalid API version specified")
	want(t, "elsewhere", w.do(t, "GET", base+"/nothing", "").Status, 404)
}
