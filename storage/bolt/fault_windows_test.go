package bolt_test

import "errors"

func fullDisk(string) error { return errors.New("not on windows") }

func readOnly(string) error { return errors.New("not on windows") }

func readOnlyForAWhile(string) error { return errors.New("not on windows") }
