// Command make builds a release of hermesd with package release. It is used by `make
// release` and `make reproducible`.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"hermesd/internal/release"
)

func main() {
	repo := flag.String("repo", ".", "a clone of the repository")
	ref := flag.String("ref", "HEAD", "the commit: a tag, a branch, a hash")
	out := flag.String("out", "dist", "the folder in which one named after the version is made")
	list := flag.String("targets", "", "platforms, such as linux/arm64,windows/amd64; empty: all")
	twice := flag.Bool("twice", false, "make it a second time, elsewhere and with nothing compiled before, and compare")
	limit := flag.Duration("limit", 30*time.Minute, "give up after this time")
	flag.Parse()
	targets, err := release.ParseTargets(*list)
	if err == nil {
		err = run(release.Options{Repo: *repo, Ref: *ref, Out: *out, Targets: targets, Log: os.Stdout}, *twice, *limit)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(o release.Options, twice bool, limit time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), limit, fmt.Errorf("time limit of %v exceeded (-limit)", limit))
	defer cancel()
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := makeAndPrint(ctx, o, twice)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("release: canceled: %w", context.Cause(ctx))
	}
	return err
}

func makeAndPrint(ctx context.Context, o release.Options, twice bool) error {
	dir, err := release.Make(ctx, o)
	if err != nil {
		return err
	}
	if twice {
		if err := verifyReproducible(ctx, o, dir); err != nil {
			return err
		}
	}
	sums, err := os.ReadFile(filepath.Join(dir, release.Sums))
	if err != nil {
		return err
	}
	fmt.Printf("%s\n%s", dir, sums)
	return nil
}

// verifyReproducible builds the release in the directory first again, in another directory
// with an empty build cache, and compares the files.
func verifyReproducible(ctx context.Context, o release.Options, first string) error {
	temp, err := os.MkdirTemp("", "hermesd-reproducible-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(temp) }() // a temporary directory, an error does not matter
	o.Out, o.Cache = filepath.Join(temp, "dist"), filepath.Join(temp, "cache")
	second, err := release.Make(ctx, o)
	if err != nil {
		return err
	}
	differ, err := release.Differences(first, second)
	if err != nil {
		return err
	}
	if len(differ) > 0 {
		return fmt.Errorf("release: not reproducible, files differ: %s", strings.Join(differ, ", "))
	}
	fmt.Println("Made twice, and every byte is the same.")
	return nil
}
