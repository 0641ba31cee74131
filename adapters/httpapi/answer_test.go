package httpapi_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"pgregory.net/rapid"

	"hermesd/adapters/httpapi"
	"hermesd/gateway/chat"
)

func TestAnAnswerIsOpenAIsObject(t *testing.T) {
	d := start(t, nil)
	d.answers(func(in chat.Inbound) {
		if err := d.says(in, chat.PurposeNotice, "the image was too large"); err != nil {
			t.Error(err)
		}
		d.echo(in)
	})
	r := ask(t, `{"model":"claude-test","temperature":0.5,"max_tokens":9,"weird\nname":1,"n":1,"tools":[],"stop":null,
		"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"hi"},{"role":"developer","content":"And kind."}]}`)
	r.Header.Set("X-Hermes-Session", "work")
	a := d.do(r)
	if a.status != 200 || a.text() != "you said: hi" || a.Choices[0].Finish != "stop" || a.Usage.Total != 105 || a.Usage.Prompt != 100 {
		t.Errorf("got %d %s", a.status, a.body)
	}
	if got := a.header.Get("X-Hermes-Ignored"); got != "max_tokens, temperature, (others)" {
		t.Errorf("ignored: %q", got)
	}
	if a.header.Get("X-Hermes-Session") != "work" || !cmp.Equal(a.Hermes.Notices, []string{"the image was too large"}) {
		t.Errorf("got %v %+v", a.header, a.Hermes)
	}
	in := d.taken()[0]
	want := chat.Inbound{
		IdempotencyKey: in.IdempotencyKey, ID: in.ID, SentAt: in.SentAt, Kind: chat.Message, Address: httpapi.Address("work"), Sender: chat.Person{ID: "key", Name: "HTTP client"},
		Text: "hi", Prompt: "Be brief.\n\nAnd kind.", ChatName: "work", Addressed: true,
	}
	if diff := cmp.Diff(want, in); diff != "" || in.IdempotencyKey == "" || in.ID == "" {
		t.Error(diff)
	}
}

func TestSessionsAreNamedByHeaderOrUser(t *testing.T) {
	d := start(t, nil)
	d.answers(d.echo)
	for _, c := range []struct{ header, user, want string }{
		{"", "", "default"}, {"a.b-c_1", "ann", "a.b-c_1"}, {"", "ann", "ann"}, {"", "ann@example.com", "user-"},
	} {
		r := ask(t, strings.Replace(user("hi"), "{", `{"user":"`+c.user+`",`, 1))
		if c.header != "" {
			r.Header.Set("X-Hermes-Session", c.header)
		}
		a := d.do(r)
		got := d.taken()[len(d.taken())-1].Address
		if !strings.HasPrefix(got.Chat, c.want) || got.Kind != chat.DM || a.Hermes.Session != got.Chat {
			t.Errorf("%+v: %+v", c, got)
		}
	}
}

// TestDeltasMakeTheAnswer: whatever previews are shown on the way, what a
// stream says is the answer, or the stream says that it is not.
func TestDeltasMakeTheAnswer(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		final := rapid.StringMatching(`[ab*é漢😀\n"<&\\]{1,40}`).Draw(rt, "final")
		cuts := rapid.SliceOfN(rapid.IntRange(0, len(final)), 0, 6).Draw(rt, "cuts") // also inside characters, also backwards
		stray := rapid.Bool().Draw(rt, "stray")
		var s transcript
		synctest.Test(t, func(t *testing.T) {
			d := start(t, nil)
			d.answers(func(in chat.Inbound) {
				previews := []string{}
				for _, n := range cuts {
					previews = append(previews, final[:n])
				}
				if stray {
					previews = append(previews, "zzz"+final)
				}
				for _, p := range previews {
					<-time.After(time.Millisecond)
					if err := d.says(in, chat.PurposePreview, p); err != nil {
						t.Errorf("preview: %v", err)
					}
				}
				<-time.After(time.Millisecond)
				if err := d.says(in, chat.PurposeAnswer, final); err != nil {
					t.Errorf("answer: %v", err)
				}
			})
			s = events(t, []byte(d.do(ask(t, streamed("go"))).body))
		})
		switch {
		case stray && !sentSomething(final, cuts): // the stray text was sent first
			if !strings.HasPrefix(s.failure, "answer_changed") || s.answer != final || s.done {
				rt.Fatalf("a changed answer: %+v", s)
			}
		case s.text() != final || s.finish != "stop" || !s.done || s.usage != 105 || s.failure != "":
			rt.Fatalf("final %q: %+v", final, s)
		}
	})
}

// sentSomething reports whether previews of final cut at cuts show any of it.
func sentSomething(final string, cuts []int) bool {
	for _, n := range cuts {
		if r, _, _ := strings.Cut(strings.ToValidUTF8(final[:n], "\x00"), "\x00"); r != "" {
			return true
		}
	}
	return false
}

func TestAStreamIsAliveWhileTheTurnRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, nil)
		d.answers(func(in chat.Inbound) {
			<-time.After(35 * time.Second)
			_ = d.says(in, chat.PurposeNotice, "Still working.")
			d.echo(in)
		})
		a := d.do(ask(t, streamed("hi")))
		s := events(t, []byte(a.body))
		if s.comments != 3 || s.text() != "you said: hi" || !s.done || a.header.Get("Content-Type") != "text/event-stream" || !cmp.Equal(s.notices, []string{"Still working."}) {
			t.Errorf("%+v", s)
		}
	})
}

func TestAFailedTurnIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, nil)
		const sorry = "⚠️ The model is overloaded. (ref t1)"
		d.answers(func(in chat.Inbound) {
			if strings.Contains(in.Text, "begin") {
				_ = d.says(in, chat.PurposePreview, "I beg")
				synctest.Wait()
			}
			if err := d.says(in, chat.PurposeFailure, sorry); err != nil {
				t.Error(err)
			}
		})
		for _, body := range []string{user("hi"), streamed("hi")} {
			a := d.do(ask(t, body))
			if a.status != 502 || a.code() != "turn_failed" || a.Error.Message != sorry || a.header.Get("X-Should-Retry") != "false" {
				t.Errorf("got %d %s", a.status, a.body)
			}
		}
		a := d.do(ask(t, streamed("begin")))
		if s := events(t, []byte(a.body)); s.failure != "turn_failed: "+sorry || s.done || s.finish != "" {
			t.Errorf("%+v", s)
		}
	})
}

func TestAStoreThatPanicsIsARefusal(t *testing.T) {
	d := start(t, func(_ *httpapi.Config, o *httpapi.Options) {
		o.Log = zap.NewNop()
		o.StoreFile = func(context.Context, chat.File, []byte) (chat.File, error) { panic("no disk") }
	})
	a := d.do(ask(t, `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,UE5H"}}]}]}`))
	if a.status != 503 || a.code() != "not_stored" {
		t.Errorf("got %d %s", a.status, a.body)
	}
	d.answers(d.echo)
	if a := d.do(ask(t, user("hi"))); a.status != 200 {
		t.Errorf("the next one: %d %s", a.status, a.body)
	}
}

func TestWhatTheStoreRefusesIsNotTaken(t *testing.T) {
	d := start(t, nil)
	d.refuses(errors.New("disk full of secrets"))
	r := ask(t, user("hi"))
	r.Header.Set("Idempotency-Key", "one")
	a := d.do(r)
	if a.status != 503 || a.code() != "not_stored" || a.header.Get("Retry-After") == "" || strings.Contains(a.body, "secrets") {
		t.Errorf("got %d %s", a.status, a.body)
	}
	d.refuses(nil)
	d.answers(d.echo)
	r = ask(t, user("hi"))
	r.Header.Set("Idempotency-Key", "one")
	if a := d.do(r); a.text() != "you said: hi" {
		t.Errorf("again: %d %s", a.status, a.body)
	}
}

func TestUnknownOutcomeIsNotCalledRefused(t *testing.T) {
	d := start(t, nil)
	d.refuses(fmt.Errorf("accept: %w", chat.ErrOutcomeUnknown))
	a := d.do(ask(t, user("hi")))
	if a.status != 503 || a.code() != "outcome_unknown" || a.header.Get("X-Should-Retry") != "false" {
		t.Errorf("got %d %s", a.status, a.body)
	}
}

func TestTheClientsCopyIsTakenOverOnlyByANewSession(t *testing.T) {
	fresh := true
	d := start(t, func(_ *httpapi.Config, o *httpapi.Options) {
		o.IsNewSession = func(_ context.Context, at chat.Address) (bool, error) {
			return fresh && at == httpapi.Address("default"), nil
		}
	})
	d.answers(d.echo)
	const body = `{"messages":[{"role":"user","content":"My name is Ann."},{"role":"assistant","content":null,"tool_calls":[{}]},{"role":"assistant","content":"Hello Ann."},
		{"role":"user","content":"Who"},{"role":"user","content":[{"type":"text","text":"am I?"}]}]}`
	d.do(ask(t, body))
	fresh = false
	d.do(ask(t, body))
	got := d.taken()
	want := "[What was said before, as the client has it:]\nuser: My name is Ann.\nassistant: Hello Ann.\n[End of what was said before.]\n\nWho\n\nam I?"
	if got[0].Text != want || got[1].Text != "Who\n\nam I?" {
		t.Errorf("new: %q\nold: %q", got[0].Text, got[1].Text)
	}
}

func TestImagesAreStoredBeforeTheMessageCounts(t *testing.T) {
	var kept []string
	d := start(t, func(_ *httpapi.Config, o *httpapi.Options) {
		o.StoreFile = func(_ context.Context, f chat.File, content []byte) (chat.File, error) {
			if string(content) == "bad" {
				f.FetchError = "the file is larger than 1 MB"
				return f, errors.New("no")
			}
			kept = append(kept, f.MIME+" "+string(content))
			f.Path = "/cache/" + string(content)
			return f, nil
		}
		o.Fetch = func(_ context.Context, url string, _ int64) ([]byte, error) {
			if strings.Contains(url, "10.0.0.1") {
				return nil, errors.New(`"10.0.0.1" is not a place to fetch from`)
			}
			if strings.Contains(url, ".html") {
				return []byte("<html>"), nil
			}
			return []byte("\x89PNG\r\n\x1a\nweb"), nil
		}
	})
	d.answers(d.echo)
	image := func(url string) string {
		return `{"messages":[{"role":"user","content":[{"type":"text","text":"see"},{"type":"image_url","image_url":{"url":"` + url + `"}}]}]}`
	}
	for url, want := range map[string]string{
		"data:image/png;base64,UE5H": "", "https://example.com/a.png": "",
		"https://example.com/a.html": "no image but text/html",
		"http://10.0.0.1/x":          "not a place to fetch from",
		"data:image/png;base64,YmFk": "larger than 1 MB",
		"data:text/html;base64,YmFk": "not say that it is an image",
		"data:image/png,raw":         "not in base64",
		"ftp://example.com/a.png":    "neither a data: URL nor http(s)",
	} {
		n := len(d.taken())
		a := d.do(ask(t, image(url)))
		if want != "" && (a.status != 400 || !strings.Contains(a.body, want) || len(d.taken()) != n) {
			t.Errorf("%s: %d %s", url, a.status, a.body)
		}
		if want == "" && (a.status != 200 || len(d.taken()[n].Files) != 1 || d.taken()[n].Files[0].Path == "") {
			t.Errorf("%s: %d %s", url, a.status, a.body)
		}
	}
	if len(kept) != 3 {
		t.Errorf("kept %v", kept)
	}
}

func TestModelsAreTheAgentUnderItsNames(t *testing.T) {
	d := start(t, func(c *httpapi.Config, _ *httpapi.Options) { c.Models = []string{"gpt-4o", "hermes"} })
	d.answers(d.echo)
	a := d.do(request(t, "GET", "/v1/models", ""))
	for _, n := range []string{"hermes", "claude-test", "gpt-4o"} {
		if strings.Count(a.body, `"id":"`+n+`"`) != 1 {
			t.Errorf("%s is not listed once: %s", n, a.body)
		}
		if a := d.do(request(t, "GET", "/v1/models/"+n, "")); a.status != 200 {
			t.Errorf("%s: %d", n, a.status)
		}
		if a := d.do(ask(t, strings.Replace(user("hi"), `"hermes"`, `"`+n+`"`, 1))); a.status != 200 || !strings.Contains(a.body, `"model":"`+n+`"`) {
			t.Errorf("%s: %d %s", n, a.status, a.body)
		}
	}
	if a := d.do(request(t, "GET", "/v1/models/gpt-5", "")); a.status != 404 || a.code() != "model_not_found" {
		t.Errorf("unknown: %d %s", a.status, a.body)
	}
}

func TestHealthNeedsNoKeyAndTellsNoSecret(t *testing.T) {
	ready := false
	d := start(t, func(_ *httpapi.Config, o *httpapi.Options) {
		o.Ready = func() (bool, string) { return ready, "the store does not write" }
		o.Accounts = func() map[chat.Account]chat.Health {
			return map[chat.Account]chat.Health{
				{Platform: chat.Telegram}:                {State: chat.Connected, LastContact: time.Now().Add(-3 * time.Second), Name: "@bot", Error: "token 123:abc"},
				{Platform: chat.Slack, Name: "workshop"}: {State: chat.Connecting},
			}
		}
	})
	get := func(path string) answer {
		r := request(t, "GET", path, "")
		r.Header.Del("Authorization")
		return d.do(r)
	}
	if a := get("/healthz"); a.status != 200 || a.body != `{"status":"ok"}` {
		t.Errorf("healthz: %d %s", a.status, a.body)
	}
	if a := get("/readyz"); a.status != 503 || !strings.Contains(a.body, "the store does not write") {
		t.Errorf("readyz: %d %s", a.status, a.body)
	}
	ready = true
	a := get("/readyz")
	if a.status != 200 || !strings.Contains(a.body, `"telegram":{"state":"connected","last_contact_age_seconds":3`) || !strings.Contains(a.body, `"slack/workshop":{"state":"connecting"}`) {
		t.Errorf("readyz: %d %s", a.status, a.body)
	}
	if strings.Contains(a.body, "bot") || strings.Contains(a.body, "123:abc") {
		t.Errorf("readyz tells %s", a.body)
	}
}

func TestAClientThatDoesNotReadHoldsNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, nil)
		sent := make(chan error, 1)
		d.answers(func(in chat.Inbound) { sent <- d.says(in, chat.PurposeAnswer, strings.Repeat("x", 1<<20)) })
		began := time.Now()
		resp, err := d.web.Do(ask(t, streamed("hi")))
		if err != nil {
			t.Fatal(err)
		}
		err = <-sent
		if took := time.Since(began); !rejected(err) || took > 31*time.Second {
			t.Errorf("after %v: %v", took, err)
		}
		if raw, err := io.ReadAll(resp.Body); err == nil && strings.Contains(string(raw), "[DONE]") {
			t.Error("the stream came to a good end")
		}
		_ = resp.Body.Close()
	})
}
