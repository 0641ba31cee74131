package plugin_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"hermesd/agent"
	"hermesd/agent/engine/compressor"
	"hermesd/agent/engine/enginetest"
	"hermesd/agent/engine/plugin"
	"hermesd/agent/llm"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "be-an-engine" {
		rogue(os.Args[2], os.Args[3:])
		return
	}
	enginetest.Main(m)
}

// rogue is an engine that answers correctly until it is asked to compress; then
// it behaves as mode says.
func rogue(mode string, args []string) {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 64<<20)
	var held []string
	for in.Scan() {
		var r struct {
			ID     *int64
			Method string
			Params json.RawMessage
		}
		if json.Unmarshal(in.Bytes(), &r) != nil || r.ID == nil {
			if len(args) > 0 && mode == "log" {
				appendTo(args[0], in.Text())
			}
			continue
		}
		say := func(result string) { fmt.Printf(`{"jsonrpc":"2.0","id":%d,"result":%s}`+"\n", *r.ID, result) }
		switch {
		case r.Method == "initialize" && mode == "version":
			say(`{"protocol":2}`)
		case r.Method == "initialize" && mode == "mute":
		case r.Method == "initialize":
			say(`{"protocol":1}`)
		case r.Method == "threshold" && mode == "no threshold":
			fmt.Printf(`{"jsonrpc":"2.0","id":%d,"error":{"code":-32601,"message":"no"}}`+"\n", *r.ID)
		case r.Method == "threshold":
			say(`{"tokens":1000}`)
		case r.Method == "tool" || r.Method == "preflight":
			answerToolOrPreflight(mode, r.Method, *r.ID, r.Params, say)
		case mode == "swap": // answers are sent in reverse order
			held = append(held, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":%s}`, *r.ID, goodAnswer(fmt.Sprint("for ", sessionOf(r.Params)))))
			if len(held) == 2 {
				fmt.Printf("%s\n%s\n", held[1], held[0])
			}
		default:
			misbehave(mode, args, *r.ID, say)
		}
	}
}

// answerToolOrPreflight answers a tool call or a preflight.
func answerToolOrPreflight(mode, method string, id int64, params json.RawMessage, say func(string)) {
	var p struct {
		Session, Name string
		Input, State  json.RawMessage
		Messages      []llm.Message
	}
	_ = json.Unmarshal(params, &p) // the test checks the output
	switch {
	case mode == "hang":
		time.Sleep(time.Hour)
	case mode == "error":
		fmt.Printf(`{"jsonrpc":"2.0","id":%d,"error":{"code":7,"message":"no such shelf"}}`+"\n", id)
	case mode == "silent":
		say(`{}`)
	case method == "preflight":
		say(fmt.Sprintf(`{"compress":%v}`, len(p.Messages) == 20 && p.Messages[1].Raw == nil && p.Session == "s"))
	default:
		text, _ := json.Marshal(fmt.Sprintf("%s for %s: %s after %s", p.Name, p.Session, p.Input, p.State))
		say(fmt.Sprintf(`{"text":%s}`, text))
	}
}

func sessionOf(params json.RawMessage) string {
	var p struct{ Session string }
	_ = json.Unmarshal(params, &p) // the test checks the output
	return p.Session
}

// goodAnswer archives all but the first two and the last two messages.
func goodAnswer(text string) string {
	return `{"from":2,"to":18,"replace":[{"role":"user","blocks":[{"type":"text","text":"` + text + `"}]},{"role":"assistant","blocks":[{"type":"text","text":"ok"}]}],"state":{"n":1}}`
}

func misbehave(mode string, args []string, id int64, say func(string)) {
	switch mode {
	case "good", "log", "no threshold":
		say(goodAnswer("in short"))
	case "hang":
		time.Sleep(time.Hour)
	case "hang with child":
		cmd := exec.CommandContext(context.Background(), "sleep", "1000")
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Start(); err == nil {
			appendTo(args[0], fmt.Sprint(cmd.Process.Pid))
		}
		time.Sleep(time.Hour)
	case "die":
		fmt.Fprintln(os.Stderr, "out of luck")
		os.Exit(3)
	case "die once":
		if _, err := os.Stat(args[0]); err != nil {
			appendTo(args[0], "died")
			os.Exit(3)
		}
		say(goodAnswer("in short"))
	case "flood":
		for {
			fmt.Println("la la la")
		}
	case "endless line":
		for {
			fmt.Print(strings.Repeat("x", 1<<20))
		}
	case "garbage":
		fmt.Print("\x00\xff{{{\n[1,2]\n{\"jsonrpc\":\"2.0\",\"id\":9999,\"result\":{}}\n{\"id\":" + fmt.Sprint(id) + ",\"result\":{}}\n\n")
		say(goodAnswer("in short"))
	case "rest":
		fmt.Printf(`{"jsonrpc":"2.0","id":%d,"error":{"code":1,"message":"too short"}}`+"\n", id)
	case "error":
		fmt.Printf(`{"jsonrpc":"2.0","id":%d,"error":{"code":-32000,"message":"my model\nis away"}}`+"\n", id)
	default:
		say(mode) // the answer itself
	}
}

func appendTo(path, line string) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	if _, err := f.WriteString(line + "\n"); err != nil {
		panic(err)
	}
}

func nopLogger() *zap.Logger { return zap.NewNop() }

// newHost runs this test binary as an engine.
func newHost(t testing.TB, timeout time.Duration, mode string, args ...string) *plugin.Host {
	h := plugin.NewHost(plugin.Manifest{
		Name: "rogue", Timeout: timeout, Dir: t.TempDir(),
		Command: append([]string{os.Args[0], "be-an-engine", mode}, args...),
	}, zap.NewNop())
	t.Cleanup(h.Close)
	return h
}

func builtin(l agent.Limits) func(json.RawMessage) agent.Engine {
	return builtinFor(enginetest.Setup{Limits: l, Summarise: &enginetest.Clerk{}})
}

// builtinFor returns the constructor of the built-in engine.
func builtinFor(up enginetest.Setup) func(json.RawMessage) agent.Engine {
	return func(state json.RawMessage) agent.Engine {
		s := enginetest.Defaults()
		s.MinThresholdTokens = 0
		return compressor.New(compressor.Options{Settings: s, Limits: up.Limits, Completer: up.Summarise, State: state})
	}
}

func newEngine(h *plugin.Host, session string) *plugin.Engine {
	l := agent.Limits{Model: "m", Window: 8000}
	return h.New(plugin.Options{Session: session, Limits: l, Fallback: builtin(l)})
}

// longView returns a conversation of 20 messages and about 12,000 tokens.
func longView() agent.ContextView {
	v := agent.ContextView{}
	for i := range 10 {
		a := llm.AssistantText(fmt.Sprint("answer ", i, strings.Repeat(" words of an answer", 150)))
		a.Raw, a.Dialect = json.RawMessage(fmt.Sprintf(`{"raw": %d}`, i)), "d"
		v.Messages = append(v.Messages, llm.UserText(fmt.Sprint("question ", i, strings.Repeat(" words of a question", 100))), a)
	}
	return v
}
