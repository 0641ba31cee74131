package main

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hermesd/agent/llm/ledger"
	"hermesd/agent/prompt"
	"hermesd/cmd/internal/admin"
	"hermesd/cmd/internal/tui/text"
)

// whichSession is the help text of every command with a SESSION argument.
const whichSession = "\n\nSESSION is a session's id, a beginning or an end of it that only one session\nhas, its title, or the name that the list shows."

func (c *cli) promptCmd() *cobra.Command {
	cmd := group(&cobra.Command{Use: "prompt", Short: "Show what the model is told, what of it was reused, and where it changed"})
	var full bool
	show := &cobra.Command{
		Use: "show SESSION", Short: "Show the frozen prompt of a conversation by layer, with sizes, and its tools", Args: args(1, 1),
		Long: "Show the frozen prompt of a conversation by layer, with sizes, and its tools." + whichSession,
		RunE: func(cmd *cobra.Command, args []string) error {
			return ask(cmd.Context(), c, func(client *admin.Client, ctx context.Context) (admin.Prompt, error) {
				return client.Prompt(ctx, args[0])
			}, func(p admin.Prompt) string { return promptText(p, full) })
		},
	}
	show.Flags().BoolVar(&full, "text", false, "print what the layers say too")
	trace := &cobra.Command{
		Use: "trace SESSION", Short: "List the model calls of a conversation: what was reused, what broke and why", Args: args(1, 1),
		Long: "List the model calls of a conversation: what was reused, what broke and why." + whichSession,
		RunE: func(cmd *cobra.Command, args []string) error {
			return ask(cmd.Context(), c, func(client *admin.Client, ctx context.Context) (admin.Trace, error) {
				return client.Trace(ctx, args[0])
			}, traceText)
		},
	}
	cmd.AddCommand(show, trace, c.diffCmd())
	return cmd
}

func (c *cli) diffCmd() *cobra.Command {
	return &cobra.Command{
		Use: "diff SESSION N M", Short: "Show the first difference between the requests of two model calls", Args: args(3, 3),
		Long: "Show the first difference between the requests of two model calls. N and M are\nnumbers of calls, as `hermesd prompt trace` lists them." + whichSession,
		RunE: func(cmd *cobra.Command, args []string) error {
			var calls [2]int
			for i, s := range args[1:] {
				n, err := strconv.Atoi(s)
				if err != nil || n < 1 {
					return &usageError{fmt.Sprintf("%q is not the number of a call; `hermesd prompt trace SESSION` lists them", s)}
				}
				calls[i] = n
			}
			return ask(cmd.Context(), c, func(client *admin.Client, ctx context.Context) (admin.Diff, error) {
				return client.Diff(ctx, args[0], calls[0], calls[1])
			}, diffText)
		},
	}
}

func promptText(p admin.Prompt, full bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "session %s, prompt %.16s\n\n", text.Line(string(p.Session.ID)), text.Line(p.Hash))
	b.WriteString(text.Clean(prompt.Show(p.Layers, false)))
	if len(p.Tools) > 0 {
		rows, bytes, tokens := make([][]string, 0, len(p.Tools)+1), 0, 0
		for _, t := range p.Tools {
			rows = append(rows, []string{t.Name, strconv.Itoa(t.Bytes), strconv.Itoa(t.Tokens)})
			bytes, tokens = bytes+t.Bytes, tokens+t.Tokens
		}
		rows = append(rows, []string{"together", strconv.Itoa(bytes), strconv.Itoa(tokens)})
		b.WriteString("\n" + text.Table([]string{"TOOL", "BYTES", "~TOKENS"}, rows))
	}
	if full {
		for _, l := range p.Layers {
			fmt.Fprintf(&b, "\n=== %s ===\n%s\n", text.Line(l.Name), text.Clean(l.Text))
		}
	}
	return b.String()
}

func traceText(t admin.Trace) string {
	if len(t.Calls) == 0 {
		return "No model was called in this conversation yet.\n"
	}
	rows := make([][]string, len(t.Calls))
	sum := ledger.Summarize(t.Calls)
	for i, r := range t.Calls {
		n := strconv.Itoa
		rows[i] = []string{
			n(r.N), r.CalledAt.Local().Format("01-02 15:04:05"), text.Cut(admin.ModelOf(r), 40), n(r.PrefixTokens), n(r.PrefixBytes), n(r.TailTokens),
			n(r.Usage.Input), n(r.Usage.CacheRead), n(r.Usage.CacheWrite), n(r.Usage.Output), breakOf(r), n(r.MissedTokens),
		}
	}
	s := text.Table([]string{"CALL", "TIME", "MODEL", "~PREFIX", "BYTES", "~TAIL", "INPUT", "READ", "WRITE", "OUTPUT", "BREAK", "MISSED"}, rows)
	s += fmt.Sprintf("\n%s; %.0f %% of what was sent came from the provider's cache; %s, %d undeclared.\n",
		text.Count(sum.Calls, "call"), sum.Reuse(), text.Count(sum.Declared(), "declared break"), sum.Undeclared())
	s += "~ is an estimate. READ and WRITE are tokens from and to the cache; MISSED should have been read from it.\n"
	if t.Forgotten > 0 {
		s += fmt.Sprintf("Not kept any more: %s.\n", text.Count(t.Forgotten, "older call"))
	}
	if sum.Undeclared() > 0 {
		s += "PROBLEM: an undeclared break is a bug of hermesd. `hermesd prompt diff` shows where; please report it.\n"
	}
	return s
}

// breakOf returns why and where the prefix of a call does not extend the previous
// one; "-" if it does.
func breakOf(r ledger.Record) string {
	switch {
	case r.Break == "":
		return "-"
	case r.BreakLayer == "":
		return string(r.Break)
	}
	return string(r.Break) + " at " + r.BreakLayer
}

func diffText(d admin.Diff) string {
	var b strings.Builder
	for _, r := range []ledger.Record{d.A, d.B} {
		fmt.Fprintf(&b, "call %d  %s  %s  %s, ~%d tokens of prefix, break: %s\n",
			r.N, r.CalledAt.Local().Format(time.DateTime), text.Line(admin.ModelOf(r)), text.Count(r.Messages, "message"), r.PrefixTokens, text.Line(breakOf(r)))
	}
	long, short := d.A, d.B
	if long.Messages < short.Messages {
		long, short = short, long
	}
	switch {
	case d.Where == "" && d.A.Hash == d.B.Hash:
		b.WriteString("\nBoth sent the same.\n")
	case d.Where == "":
		fmt.Fprintf(&b, "\nThey do not part: call %d begins with all that call %d sent, and adds %s.\n", long.N, short.N, text.Count(long.Messages-short.Messages, "message"))
	default:
		fmt.Fprintf(&b, "\nThey part at: %s\n%s\n", text.Line(d.Where), meaning(d.Where))
	}
	return b.String()
}

// meaning explains the location of the first difference of two calls.
func meaning(where string) string {
	said := map[string]string{
		ledger.LayerModel:   "Another model, or provider, was asked; each has a cache of its own.",
		ledger.LayerTools:   "The tools that were offered are not the same.",
		ledger.LayerPrompt:  "The frozen prompt was built again; `hermesd prompt show SESSION --text` shows the present one.",
		ledger.LayerOverlay: "The system text behind the prompt changed (agent.overlay_placement: system).",
		ledger.LayerPrefill: "The prefill messages changed (agent.prefill_messages_file).",
	}
	return cmp.Or(said[where], "The conversation was made smaller, taken back or branched there; messages are counted from 0.")
}
