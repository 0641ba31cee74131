package bench_test

import (
	"bufio"
	"bytes"
	"context"
	bigendian "encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-telegram/bot"
	"github.com/go-telegram/bot/models"
	"go.etcd.io/bbolt"

	"hermesd/internal/daemontest"
)

// BenchmarkFloor is BenchmarkSteady with a program in place of the daemon that does only
// what cannot be omitted: go-telegram/bot polls, three bbolt commits with the records of
// a turn, one call of the model, one sendMessage. It has no gateway, no search index, and
// encodes no record. The program is this test binary, as a child process.
func BenchmarkFloor(b *testing.B) {
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	steady(b, daemontest.Options{Binary: self})
}

// frozenRequest is the number of bytes of the system prompt and the tools in a request of
// the daemon with the default configuration, overlay the number of bytes of its overlay.
const frozenRequest, overlay = 25_600, 420

// A floor is the program that BenchmarkFloor measures.
type floor struct {
	db     *bbolt.DB
	http   http.Client
	model  string
	frozen []byte

	mu    sync.Mutex // guards what follows
	chats map[int64]*floorChat
	count uint64
}

// A floorChat is one conversation. Its messages are separate turns, one at a time.
type floorChat struct {
	mu       sync.Mutex
	messages bytes.Buffer // the list of messages of the next request
	rows     int
	recent   []byte // key of the record in bucket "recent"
}

// runFloor runs a floor in the home directory that a Rig has written.
func runFloor(home string) error {
	config, err := os.ReadFile(filepath.Join(home, "config.yaml"))
	if err != nil {
		return err
	}
	value := func(key string) string {
		return regexp.MustCompile(`(?m)^ +` + key + `: "?([^"\n]+)`).FindStringSubmatch(string(config))[1]
	}
	db, err := bbolt.Open(filepath.Join(home, "state.db"), 0o600, &bbolt.Options{
		FreelistType: bbolt.FreelistMapType, NoStatistics: true, InitialMmapSize: 1 << 28,
	})
	if err != nil {
		return err
	}
	defer db.Close()
	db.AllocSize = 1 << 20
	text := strings.Repeat("Words of the prompt. ", frozenRequest/21)
	f := &floor{
		db: db, model: value("base_url") + "/v1/messages", chats: make(map[int64]*floorChat),
		frozen: fmt.Appendf(nil, `{"model":"claude-sonnet-4-5","max_tokens":16384,"stream":true,"system":[{"type":"text","text":%q,"cache_control":{"type":"ephemeral"}}],"messages":[`, text),
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, name := range strings.Fields("keys ages entries lanes turns transcripts recent sessions calls rows queues") {
			if _, err := tx.CreateBucket([]byte(name)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	b, err := bot.New(value("token"), bot.WithServerURL(value("api_url")), bot.WithSkipGetMe(), bot.WithNotAsyncHandlers(),
		bot.WithAllowedUpdates(bot.AllowedUpdates{"message", "edited_message", "callback_query"}), bot.WithDefaultHandler(f.accept))
	if err != nil {
		return err
	}
	b.Start(ctx)
	return nil
}

// accept stores an update as the daemon does, and starts its turn.
func (f *floor) accept(ctx context.Context, b *bot.Bot, u *models.Update) {
	f.mu.Lock()
	f.count++
	n, chat := f.count, u.Message.Chat.ID
	c := f.chats[chat]
	if c == nil {
		c = &floorChat{}
		f.chats[chat] = c
	}
	f.mu.Unlock()
	id := bigendian.BigEndian.AppendUint64(nil, n)
	lane := fmt.Appendf(nil, "\x00\x1dagent:main:telegram:dm:%d%s", chat, id)
	turn := fmt.Appendf(nil, "t%011x-1-%x", time.Now().UnixMilli(), n)
	f.commit(func(w write) {
		w.put("keys", fmt.Appendf(nil, "\x00\btelegram\x00\x00%d:%d", chat, u.Message.ID), 57)
		w.put("ages", id, 40)
		w.put("entries", id, 521)
		w.put("lanes", lane, 28)
		w.put("turns", turn, 183)
	})
	go f.turn(ctx, b, u.Message, c, id, lane, turn) // the process ends without waiting for it
}

// turn answers one message.
func (f *floor) turn(ctx context.Context, b *bot.Bot, m *models.Message, c *floorChat, id, lane, turn []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	answer := f.ask(ctx, c, m.Text)
	session := fmt.Appendf(nil, "20261127_184915_%08x", m.Chat.ID)
	recent := append(bigendian.BigEndian.AppendUint64(nil, uint64(time.Now().UnixNano())), session...)
	queue := fmt.Appendf(nil, "\x00\btelegram\x00\x00\x00\x02dm\x00\x00\x00\x06%d\x00\x00\x00\x00%s", m.Chat.ID, id)
	row := func() []byte {
		c.rows++
		return bigendian.BigEndian.AppendUint32(append(session[:len(session):len(session)], 0), uint32(c.rows))
	}
	f.commit(func(w write) {
		w.put("calls", row(), 493)
		w.put("transcripts", row(), 73)
		w.put("transcripts", row(), 158)
		w.delete("recent", c.recent)
		w.put("recent", recent, 9)
		w.put("sessions", session, 410)
		w.put("entries", id, 590)
		w.delete("lanes", lane)
		w.put("turns", turn, 494)
		w.put("rows", id, 277)
		w.put("queues", queue, 10)
	})
	c.recent = recent
	if _, err := b.SendMessage(ctx, &bot.SendMessageParams{ChatID: m.Chat.ID, Text: answer}); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	f.commit(func(w write) {
		w.put("rows", id, 338)
		w.delete("queues", queue)
	})
}

// ask sends the conversation with one more message to the model, and returns its answer.
func (f *floor) ask(ctx context.Context, c *floorChat, text string) string {
	if c.messages.Len() > 0 {
		c.messages.WriteByte(',')
	}
	fmt.Fprintf(&c.messages, `{"role":"user","content":[{"type":"text","text":%q}]}`, text)
	body := append(make([]byte, 0, len(f.frozen)+c.messages.Len()+overlay+64), f.frozen...)
	body = append(append(body, c.messages.Bytes()...), `]`...)
	body = fmt.Appendf(body, `,"metadata":{"user_id":"%0*d"}}`, overlay, 0)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.model, bytes.NewReader(body))
	if err != nil {
		return err.Error()
	}
	req.Header = http.Header{"Content-Type": {"application/json"}, "Anthropic-Version": {"2023-06-01"}, "X-Api-Key": {"sk-simulated-0000000000"}}
	resp, err := f.http.Do(req)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	answer := ""
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !ok {
			continue
		}
		var e struct {
			Delta struct {
				Text string `json:"text"`
			} `json:"delta"`
		}
		if err := json.Unmarshal(data, &e); err != nil {
			return err.Error()
		}
		answer += e.Delta.Text
	}
	fmt.Fprintf(&c.messages, `,{"role":"assistant","content":[{"type":"text","text":%q}]}`, answer)
	return answer
}

// commit calls fill in one transaction. An error ends the process.
func (f *floor) commit(fill func(w write)) {
	err := f.db.Update(func(tx *bbolt.Tx) error { fill(write{tx}); return nil })
	if err != nil {
		panic(err)
	}
}

// A write is a transaction.
type write struct{ tx *bbolt.Tx }

// put stores size bytes.
func (w write) put(bucket string, key []byte, size int) {
	if err := w.tx.Bucket([]byte(bucket)).Put(key, bytes.Repeat([]byte{'x'}, size)); err != nil {
		panic(err)
	}
}

func (w write) delete(bucket string, key []byte) {
	if err := w.tx.Bucket([]byte(bucket)).Delete(key); err != nil {
		panic(err)
	}
}
