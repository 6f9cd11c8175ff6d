"""Whether a skill helps: tasks tried with and without it, judged by checks that no model makes."""
