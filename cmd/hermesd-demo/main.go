// Command hermesd-demo runs the tour of package demo. A released hermesd contains no
// simulators; its command `hermesd demo` starts this program.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"hermesd/cmd/internal/demo"
)

func main() {
	daemon := flag.String("daemon", "", "the program hermesd, which is run as the daemon; `hermesd demo` names itself")
	exit := flag.Bool("exit", false, "end after the tour")
	flag.Parse()
	if err := run(*daemon, !*exit); err != nil {
		fmt.Fprintln(os.Stderr, "hermesd-demo:", err)
		os.Exit(1)
	}
}

func run(daemon string, stay bool) error {
	if daemon == "" || flag.NArg() > 0 {
		return errors.New("start it with `hermesd demo`")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	return demo.Run(ctx, demo.Options{Binary: daemon, Command: "hermesd", Stay: stay, In: os.Stdin, Out: os.Stdout})
}
