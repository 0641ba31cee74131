package discord_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"hermesd/internal/sim/discord"
)

// commands returns the path of the bot's global commands.
func (w *web) commands() string { return "/applications/" + w.bot.ID() + "/commands" }

func (w *web) names(guild string) string {
	var out []string
	for _, c := range w.bot.Commands(guild) {
		out = append(out, c.Name)
	}
	return strings.Join(out, " ")
}

func TestCommandsAreRegistered(t *testing.T) {
	in(t, discord.Options{}, func(t *testing.T, w *web) {
		at := w.commands()
		for body, expect := range map[string]string{
			`{"name":"Upper","description":"x"}`:                                                          "400 50035 Invalid Form Body",
			`{"name":"two words","description":"x"}`:                                                      "400 50035 Invalid Form Body",
			`{"name":"bare"}`:                                                                             "400 50035 Invalid Form Body",
			`{"name":"long","description":"` + strings.Repeat("x", 101) + `"}`:                            "400 50035 Invalid Form Body",
			`{"name":"odd","description":"x","options":[{"type":3,"name":"A B","description":"x"}]}`:      "400 50035 Invalid Form Body",
			`{"name":"many","description":"x","options":[` + strings.Repeat(`{"name":"a"},`, 25) + `{}]}`: "400 50035 Invalid Form Body",
		} {
			want(t, body, w.do(t, "POST", at, body).short(), expect)
		}
		made := w.do(t, "POST", at, `{"name":"run","description":"Runs","options":[{"type":3,"name":"a","description":"b","required":false}]}`)
		want(t, "made", made.Status, 201)
		if strings.Contains(made.Raw, "required") {
			t.Errorf("what is not required is left out: %s", made.Raw)
		}
		again := w.do(t, "POST", at, `{"name":"run","description":"Runs well"}`)
		want(t, "changed by name", fmt.Sprint(again.Status, again.ID == made.ID), "200 true")
		want(t, "changed by id", w.do(t, "PATCH", at+"/"+made.ID, `{"description":"Walks"}`).Status, 200)
		want(t, "description", w.bot.Commands("")[0].Description, "Walks")
		version := w.bot.Commands("")[0].Version
		all := w.do(t, "PUT", at, `[{"name":"run","description":"Walks"},{"name":"stop","description":"Stops"}]`)
		want(t, "all at once", fmt.Sprint(all.Status, len(all.List), all.List[0].ID == made.ID), "200 2 true")
		want(t, "unchanged", w.bot.Commands("")[0].Version, version)
		want(t, "twice", w.do(t, "PUT", at, `[{"name":"a","description":"x"},{"name":"a","description":"x"}]`).short(), "400 50035 Invalid Form Body")
		want(t, "nothing changed", w.names(""), "run stop")
		want(t, "gone", w.do(t, "DELETE", at+"/"+made.ID, "").Status, 204)
		want(t, "gone before", w.do(t, "DELETE", at+"/"+made.ID, "").short(), "404 10063 Unknown application command")
		want(t, "someone else's", w.do(t, "GET", "/applications/1/commands", "").Status, 403)
		guild := "/applications/" + w.bot.ID() + "/guilds/" + w.home.ID() + "/commands"
		want(t, "of a guild", w.do(t, "POST", guild, `{"name":"here","description":"x"}`).Status, 201)
		want(t, "apart", w.names("")+"|"+w.names(w.home.ID()), "stop|here")
		var many []string
		for i := range 101 {
			many = append(many, fmt.Sprintf(`{"name":"c%d","description":"x"}`, i))
		}
		want(t, "too many", w.do(t, "PUT", at, "["+strings.Join(many, ",")+"]").Code, 30032)
	})
}

// use registers a command, identifies and lets ann use it.
func (w *web) use(t *testing.T) (*socket, *discord.Interaction) {
	t.Helper()
	w.do(t, "POST", w.commands(), `{"name":"run","description":"Runs"}`)
	s := w.socket(t)
	s.ready(discord.IntentGuilds)
	i, err := w.ch.Command(w.ann, w.bot, "run", discord.Option{Name: "n", Value: 3})
	if err != nil {
		t.Fatal(err)
	}
	return s, i
}

func (w *web) callback(t *testing.T, i *discord.Interaction, body string) string {
	t.Helper()
	st := i.State()
	return w.do(t, "POST", "/interactions/"+st.ID+"/"+st.Token+"/callback", body).short()
}

func (w *web) hook(i *discord.Interaction) string {
	return "/webhooks/" + w.bot.ID() + "/" + i.State().Token
}

func TestAnInteractionIsAnsweredInTime(t *testing.T) {
	in(t, discord.Options{}, func(t *testing.T, w *web) {
		s, i := w.use(t)
		p := s.next()
		var got struct {
			Token  string `json:"token"`
			Member struct {
				User struct{ ID string } `json:"user"`
			} `json:"member"`
			Data struct {
				Name    string `json:"name"`
				Options []struct{ Value any }
			} `json:"data"`
		}
		if err := json.Unmarshal(p.Data, &got); err != nil || p.Type != "INTERACTION_CREATE" {
			t.Fatalf("%s: %v", p.Type, err)
		}
		want(t, "event", fmt.Sprint(got.Token == i.State().Token, got.Member.User.ID == w.ann.ID, got.Data.Name, got.Data.Options[0].Value), "true truerun3")
		want(t, "too early", w.do(t, "POST", w.hook(i), `{"content":"x"}`).short(), "404 10015 Unknown Webhook")
		w.auth = "" // the path contains the token
		want(t, "unknown kind", w.callback(t, i, `{"type":77}`), "400 50035 Invalid Form Body")
		want(t, "too long", w.callback(t, i, `{"type":4,"data":{"content":"`+strings.Repeat("x", 2001)+`"}}`), "400 50035 Invalid Form Body")
		want(t, "answered", w.callback(t, i, `{"type":4,"data":{"content":"done"}}`), "204 0")
		want(t, "again", w.callback(t, i, `{"type":5}`), "400 40060 Interaction has already been acknowledged.")
		want(t, "more", w.do(t, "POST", w.hook(i), `{"content":"and more"}`).Status, 200)
		want(t, "original", w.do(t, "GET", w.hook(i)+"/messages/@original", "").Text, "done")
		want(t, "edited", w.do(t, "PATCH", w.hook(i)+"/messages/@original", `{"content":"all done"}`).Status, 200)
		want(t, "stands", strings.Join(w.ch.Visible(w.bot.User()), "|"), "all done|and more")
		want(t, "deleted", w.do(t, "DELETE", w.hook(i)+"/messages/@original", "").Status, 204)
		want(t, "gone", w.do(t, "GET", w.hook(i)+"/messages/@original", "").short(), "404 10008 Unknown Message")
		want(t, "answers", len(i.State().Answers), 1)
		<-time.After(16 * time.Minute)
		want(t, "too late", w.do(t, "POST", w.hook(i), `{"content":"x"}`).short(), "401 50027 Invalid Webhook Token")
	})
	in(t, discord.Options{}, func(t *testing.T, w *web) {
		_, i := w.use(t)
		<-time.After(4 * time.Second)
		want(t, "failed", i.State().Failed, true)
		want(t, "too late", w.callback(t, i, `{"type":5}`), "404 10062 Unknown interaction")
		if _, err := w.ch.Command(w.ann, w.bot, "nothing"); !errors.Is(err, discord.ErrNoCommand) {
			t.Errorf("an unknown command: %v", err)
		}
	})
}

func TestAnAnswerMayBeDeferredAndEphemeral(t *testing.T) {
	in(t, discord.Options{}, func(t *testing.T, w *web) {
		_, i := w.use(t)
		want(t, "deferred", w.callback(t, i, `{"type":5,"data":{"flags":64}}`), "204 0")
		a := i.State().Answers[0]
		want(t, "thinking", fmt.Sprint(a.Pending, a.Ephemeral), "true true")
		want(t, "the first follow-up takes its place", w.do(t, "POST", w.hook(i), `{"content":"done"}`).ID, a.ID)
		a = i.State().Answers[0]
		want(t, "answer", fmt.Sprint(a.Text, a.Pending, a.Ephemeral, a.Edited.IsZero()), "donefalse true true")
		want(t, "not in the history", w.do(t, "GET", "/channels/"+w.ch.ID()+"/messages", "").Raw, "[]")
		n := w.Recorder().Counts()
		want(t, "counted once", fmt.Sprint(n.Sent, n.Edited), "1 0")
		_, other := w.use(t)
		st := other.State()
		full := w.do(t, "POST", "/interactions/"+st.ID+"/"+st.Token+"/callback?with_response=true", `{"type":4,"data":{"content":"told"}}`)
		want(t, "with response", fmt.Sprint(full.Status, strings.Contains(full.Raw, `"content":"told"`)), "200 true")
		i.Expire()
		want(t, "expired", w.do(t, "PATCH", w.hook(i)+"/messages/@original", `{"content":"x"}`).Code, 50027)
	})
}

func TestAButtonIsPressed(t *testing.T) {
	in(t, discord.Options{}, func(t *testing.T, w *web) {
		s := w.socket(t)
		s.ready(discord.IntentGuilds)
		m := w.say(t, `{"content":"sure?","components":[{"type":1,"components":[{"type":2,"style":3,"label":"Yes","custom_id":"yes"}]}]}`)
		if _, err := w.ch.Press(w.ann, m.ID, "no"); !errors.Is(err, discord.ErrNoMessage) {
			t.Errorf("a button that is not there: %v", err)
		}
		i, err := w.ch.Press(w.ann, m.ID, "yes")
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Message reply                     `json:"message"`
			Data    struct{ CustomID string } `json:"data"`
		}
		_ = json.Unmarshal([]byte(strings.ReplaceAll(string(s.next().Data), "custom_id", "CustomID")), &got)
		want(t, "event", got.Data.CustomID+" "+got.Message.ID, "yes "+m.ID)
		want(t, "update", w.callback(t, i, `{"type":7,"data":{"content":"yes, by ann","components":[]}}`), "204 0")
		after, _ := w.ch.Message(m.ID)
		want(t, "message", fmt.Sprint(after.Text, len(after.Buttons)), "yes, by ann0")
		if _, err := w.ch.Press(w.ann, m.ID, "yes"); !errors.Is(err, discord.ErrNoMessage) {
			t.Errorf("a button that is gone: %v", err)
		}
		forged, err := w.ch.Forge(w.ann, m.ID, "sudo")
		if err != nil {
			t.Fatal(err)
		}
		want(t, "nothing now", w.callback(t, forged, `{"type":6}`), "204 0")
		want(t, "later", w.do(t, "PATCH", w.hook(forged)+"/messages/@original", `{"content":"no"}`).ID, m.ID)
	})
}
