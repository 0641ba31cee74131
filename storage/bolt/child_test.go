package bolt_test

func child(what string) int { return 2 }
