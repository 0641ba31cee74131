package telegram_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	tg "github.com/go-telegram/bot"
	"github.com/go-telegram/bot/models"
	"go.uber.org/goleak"

	"hermesd/internal/sim/telegram"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// An answer is an answer of the API.
type answer struct {
	Status      int
	OK          bool            `json:"ok"`
	Result      json.RawMessage `json:"result"`
	Code        int             `json:"error_code"`
	Description string          `json:"description"`
	Parameters  struct {
		RetryAfter int   `json:"retry_after"`
		MigrateTo  int64 `json:"migrate_to_chat_id"`
	} `json:"parameters"`
}

// A place is a server in memory with one bot, one person and their chat.
type place struct {
	*telegram.Server
	bot *telegram.Bot
	ann *telegram.User
	dm  *telegram.Chat
	web *http.Client
	t   *testing.T // used by do
}

// do makes a call in the private chat and requires success.
func (p *place) do(method string, pairs ...string) {
	p.t.Helper()
	mustOK(p.t, p.call(p.t, method, append(pairs, "chat_id", fmt.Sprint(p.dm.ID()))...))
}

func newPlace(t *testing.T, o telegram.Options) *place {
	t.Helper()
	p := &place{Server: telegram.New(o)}
	t.Cleanup(p.Close)
	p.bot = p.AddBot(telegram.BotOptions{Username: "sim_bot", FirstID: 1000})
	p.ann = p.AddUser(telegram.Person{FirstName: "Ann", Username: "ann"})
	p.dm = p.ann.Chat(p.bot)
	p.web = p.Client()
	return p
}

// call sends the pairs of names and values urlencoded.
func (p *place) call(t *testing.T, method string, pairs ...string) answer {
	t.Helper()
	return p.callAs(t, p.bot.Token(), method, pairs...)
}

func (p *place) callAs(t *testing.T, token, method string, pairs ...string) answer {
	t.Helper()
	a, err := p.try(t.Context(), token, method, pairs...)
	if err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	return a
}

func (p *place) try(ctx context.Context, token, method string, pairs ...string) (answer, error) {
	form := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL()+"/bot"+token+"/"+method, strings.NewReader(form.Encode()))
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := p.web.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{}, err
	}
	a := answer{Status: resp.StatusCode}
	if err := json.Unmarshal(body, &a); err != nil {
		return a, fmt.Errorf("no JSON: %q: %w", body, err)
	}
	return a, nil
}

// An update holds the fields of an update that the tests check.
type update struct {
	ID      int              `json:"update_id"`
	Message *models.Message  `json:"message"`
	Edited  *models.Message  `json:"edited_message"`
	Post    *models.Message  `json:"channel_post"`
	Mine    *json.RawMessage `json:"my_chat_member"`
}

// updates polls without waiting.
func (p *place) updates(t *testing.T, pairs ...string) []update {
	t.Helper()
	a := p.call(t, "getUpdates", pairs...)
	if !a.OK {
		t.Fatalf("getUpdates: %+v", a)
	}
	var out []update
	if err := json.Unmarshal(a.Result, &out); err != nil {
		t.Fatalf("getUpdates: %v in %s", err, a.Result)
	}
	return out
}

func ids(list []update) string {
	var out []string
	for _, u := range list {
		out = append(out, fmt.Sprint(u.ID))
	}
	return strings.Join(out, " ")
}

// library returns an unmodified client on the network.
func (p *place) library(t *testing.T, options ...tg.Option) *tg.Bot {
	t.Helper()
	address, err := p.Start()
	if err != nil {
		t.Fatal(err)
	}
	web := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(web.CloseIdleConnections)
	options = append([]tg.Option{
		tg.WithServerURL(address), tg.WithHTTPClient(3*time.Second, web),
		tg.WithErrorsHandler(func(err error) {
			if !errors.Is(err, context.Canceled) {
				t.Logf("library: %v", err)
			}
		}),
	}, options...)
	b, err := tg.New(p.bot.Token(), options...)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func mustOK(t *testing.T, a answer) {
	t.Helper()
	if !a.OK {
		t.Fatalf("refused: %+v", a)
	}
}

func mustRefuse(t *testing.T, a answer, code int, description string) {
	t.Helper()
	if a.OK || a.Code != code || a.Status != code || a.Description != description {
		t.Errorf("got %d %q (HTTP %d, ok %v), want %d %q", a.Code, a.Description, a.Status, a.OK, code, description)
	}
}

// one reads the only update of an answer to getUpdates.
func one(t *testing.T, a answer, into any) {
	t.Helper()
	var list []json.RawMessage
	if err := json.Unmarshal(a.Result, &list); err != nil || len(list) != 1 {
		t.Fatalf("want one update: %+v %s", a, a.Result)
	}
	if err := json.Unmarshal(list[0], into); err != nil {
		t.Fatal(err)
	}
}
