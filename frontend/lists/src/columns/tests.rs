use super::*;

fn sample(text: &str) -> Sample {
    let records = text.lines().map(|line| ByteRecord::from(line.split(',').collect::<Vec<_>>())).collect();
    Sample { records, encoding: Encoding::utf_8(false) }
}

fn wanted(name: Option<&str>) -> Vec<String> {
    name.map(str::to_owned).into_iter().collect()
}

#[track_caller]
fn check(text: &str, name: Option<&str>, address: usize, has_header: bool) {
    let columns = find(&sample(text), &wanted(name), &[]).unwrap();
    assert_eq!(
        (columns.addresses, columns.has_header, columns.titles),
        (vec![address], has_header, 0),
        "{text}"
    );
}

#[test]
fn the_column_is_found_by_its_name() {
    for name in ["email", "E-Mail", "e-mail address", "Email_Address", "MAIL", "mail", " Email ", "Эл. почта"]
    {
        check(&format!("id,{name},x\n1,a@b.co,2"), None, 1, true);
    }
    check("mail,email\nx,a@b.co", None, 1, true);
    check("email", None, 0, true);
    check("id,email\n1,", None, 1, true);
    check("email,contact\n,a@b.co", None, 1, true);
    check("email 2,email\na@b.co,", None, 0, true);
}

#[test]
fn the_column_is_found_by_its_content() {
    check("1,Joe,joe@x.com\n2,Ann,ann@x.com", None, 2, false);
    check("id,name,contact\n1,Joe,joe@x.com\n2,Ann,ann@x.com", None, 2, true);
    check("name,address,contact\nJoe,Main St 1,joe@x.com", None, 2, true);
    check("name,address\nJoe,joe@x.com", None, 1, true);
    check("x@y.com", None, 0, false);
    check("x,a@b.co\ny,\nz,c@d.co\n,broken", None, 1, false);
    check("x,Joe <a@b.co>\ny,Ann <c@d.co>", None, 1, false);
}

#[test]
fn the_column_can_be_named() {
    check("id,Work Mail,email\n1,a@x.com,b@x.com", Some("work mail"), 1, true);
    check("id,w,email\n1,a@x.com,b@x.com", Some("2"), 1, true);
    check("1,a@x.com,b@x.com\n2,c@x.com,d@x.com", Some("3"), 2, false);
    check("7,2,email\n1,a@x.com,b@x.com", Some("2"), 1, true);
    check("id,name\n1,nobody", Some("name"), 1, true);
    check("id,name,email\n1,x,", Some("2"), 1, true);
}

#[test]
fn a_number_finds_the_header_that_a_name_finds() {
    for (text, name, number, column) in [
        ("contact,x\na@b.co,1\nc@d.co,2", "contact", "1", 0),
        ("contact,x\na@b.co,1\nc@d.co,2", "x", "2", 1),
        ("kunde,work,home\n1,,a@b.co\n2,,c@d.co", "work", "2", 1),
        ("name,email,other\nJoe,a@b.co,", "name", "1", 0),
        ("customer,town\nJoe,12\nAnn,15", "customer", "1", 0),
        ("customer,email\nJoe,", "customer", "1", 0),
        ("2024,2025\nx,a@b.co", "2024", "1", 0),
    ] {
        check(text, Some(name), column, true);
        check(text, Some(number), column, true);
    }
    // Without a header, the first row has an address in some column. A number is no name of a column there.
    for (text, number, column) in [
        ("1,a@b.co\n2,c@d.co", "1", 0),
        ("1,a@b.co\n2,c@d.co", "2", 1),
        ("Joe,,a@b.co\nAnn,c@d.co,", "2", 1),
        ("Joe,Smith\nAnn,Miller", "1", 0),
        ("a@b.co", "1", 0),
    ] {
        check(text, Some(number), column, false);
    }
    let two = |text: &str| find(&sample(text), &["2".to_owned(), "3".to_owned()], &[]).unwrap().has_header;
    assert!(two("kunde,work,home\n1,,a@b.co") && !two("1,,a@b.co\n2,c@d.co,"));
}

#[test]
fn other_columns_with_addresses_are_named() {
    for (text, name, expected) in [
        ("id,email,mail2\n1,a@b.co,\n2,c@d.co,e@f.co", None, &[("mail2", 1, 2)][..]),
        ("id,email,mail2\n1,a@b.co,\n2,c@d.co,e@f.co", Some("mail2"), &[("email", 2, 2)]),
        ("1,a@b.co,x,e@f.co", None, &[("4", 1, 1)]),
        ("id,mail,mail\n1,a@b.co,c@d.co", None, &[("3", 1, 1)]),
        // Hardly any note is an address.
        ("email,note\na@b.co,x\nc@d.co,y\ne@f.co,g@h.co", None, &[]),
        ("email,deliverable,reason,suggestion\na@b.co,true,mailbox_exists,c@d.co", None, &[]),
    ] {
        let sample = sample(text);
        let chosen = find(&sample, &wanted(name), &[]).unwrap();
        let found = left_out(&sample, &chosen);
        let found: Vec<_> = found.iter().map(|it| (&*it.name, it.rows, it.looked_at)).collect();
        assert_eq!(found, expected, "{text}");
    }
}

#[test]
fn titles_stand_before_a_header() {
    for (text, titles, has_header) in [
        ("Report,,\n,,\nid,email,name\n1,a@b.co,x", 2, true),
        ("Report\nid,email,name\n1,a@b.co,x", 1, true),
        ("Report 2024\nMarketing\n\nName,Contact,Town\nx,a@b.co,y", 3, true),
        ("Report,,\nx,a@b.co,y\nz,c@d.co,y", 1, false),
        ("7,,\nx,a@b.co,y\nz,c@d.co,y", 0, true),
        ("nobody\nemail\na@b.co", 0, true),
    ] {
        let columns = find(&sample(text), &[], &[]).unwrap();
        assert_eq!((columns.titles, columns.has_header), (titles, has_header), "{text}");
    }
}

#[test]
fn errors_name_the_columns() {
    let said =
        |text: &str, name: Option<&str>| find(&sample(text), &wanted(name), &[]).expect_err("an error");
    assert_eq!(
        said("id,name\n1,Joe", Some("email")),
        ListError::Column("there is no column `email`: the list has id, name".to_owned())
    );
    for number in ["0", "3"] {
        assert_eq!(
            said("id,name\n1,Joe", Some(number)),
            ListError::Column(format!("there is no column {number}: the list has 2 (id, name)"))
        );
    }
    for (text, columns) in [
        ("id,name\n1,Joe", "2 columns (id, name)"),
        ("email\nnobody", "1 column (email)"),
        ("kunde,firma,ort\nMeier,Meier AG,Ulm", "3 columns (kunde, firma, ort)"),
        ("nonsense\nmore", "1 column"),
        ("Meier,Ulm\nMüller,Köln", "2 columns"),
        ("Meier,12\nMüller,15", "2 columns"),
    ] {
        assert_eq!(said(text, None), ListError::NoAddress(columns.to_owned()), "{text}");
    }
    // A row with an address is no header: it would lose its check.
    for (text, name) in [
        ("a@b.co,x", "email"),
        ("Joe,Smith\nAnn,Miller", "email"),
        ("Joe,a@b.co\nAnn,c@d.co", "Joe"),
        ("Joe,a@b.co\nAnn,c@d.co", "a@b.co"),
        ("Joe,a@b.co", "joe"),
    ] {
        let why = format!("there is no column `{name}`: the list has 2 columns, and no header is recognized");
        assert_eq!(said(text, Some(name)), ListError::NoHeader(why), "{text}");
    }
    check("E-Mail,ask a@b.co\nc@d.co,x", Some("e-mail"), 0, true);
    let two = ["kunde".to_owned(), "mail".to_owned()];
    let said = find(&sample("Kunde,Firma\na@b.co,x"), &two, &[]).unwrap_err();
    assert_eq!(said, ListError::Column("there is no column `mail`: the list has Kunde, Firma".to_owned()));
}

#[test]
fn one_line_of_addresses_is_no_list() {
    for text in ["a@b.co,c@d.co", "a@b.co,A <c@d.co>,"] {
        let said = find(&sample(text), &[], &[]).expect_err("an error").to_string();
        assert_eq!(said, "the list has several addresses in one line: write one per line");
    }
    check("a@b.co,c@d.co", Some("2"), 1, false);
    check("a@b.co,x", None, 0, false);
}

#[test]
fn several_columns_can_be_named() {
    let list = sample("id,work,home\n1,a@x.com,b@x.com");
    let columns = find(&list, &["home".to_owned(), "2".to_owned()], &[]).unwrap();
    let names: Vec<_> = columns.verdicts.iter().map(|names| names.reason.clone()).collect();
    assert_eq!((columns.addresses, names), (vec![2, 1], vec![b"reason".to_vec(), b"work_reason".to_vec()]));
    let twice = find(&list, &["home".to_owned(), "3".to_owned()], &[]).unwrap_err().to_string();
    assert_eq!(twice, "the column `3` is given twice");
}

#[test]
fn earlier_columns_are_recognized() {
    for (text, earlier, name) in [
        ("email,deliverable,reason\na@b.co,true,mailbox_exists", &[1, 2][..], "reason"),
        ("email,deliverable,reason\na@b.co,TRUE,mailbox_exists\nc@d.co,,", &[1, 2], "reason"),
        ("email,deliverable,reason\na@b.co,,fast_check_passed", &[1, 2], "reason"),
        ("email,deliverable,reason", &[1, 2], "reason"),
        ("email,deliverable,reason,x\na@b.co,false,no_mx,7", &[1, 2], "reason"),
        (
            "email,reason,mailprobe_deliverable,mailprobe_reason\na@b.co,x,true,role_account",
            &[2, 3],
            "mailprobe_reason",
        ),
        ("email,x,deliverable,reason,x_deliverable,x_reason\na@b.co,,false,no_mx,,", &[2, 3], "reason"),
        ("a@b.co,true,mailbox_exists\nc@d.co,false,no_mx", &[1, 2], "reason"),
        ("a@b.co,true,mailbox_exists,2026-01-02T03:04:05Z\nc@d.co,false,no_mx,", &[1, 2, 3], "reason"),
        ("a@b.co,true,mailbox_exists,\nc@d.co,false,no_mx,", &[], "reason"),
        ("a@b.co,true,mailbox_exists,2026-01-02T03:04:05Z\nc@d.co,false,no_mx,monday", &[], "reason"),
        // These belong to the owner of the list.
        ("email,deliverable,reason\na@b.co,true,he said so", &[], "mailprobe_reason"),
        ("email,deliverable,reason\na@b.co,,", &[], "mailprobe_reason"),
        ("email,deliverable,reason\na@b.co,false,mailbox_exists_not", &[], "mailprobe_reason"),
        ("email,reason,deliverable\na@b.co,no_mx,false", &[], "mailprobe_reason"),
        ("email,Reason\na@b.co,x", &[], "mailprobe_reason"),
        ("email,reason,mailprobe_reason\na@b.co,x,y", &[], "mailprobe2_reason"),
        ("a@b.co,true,mailbox_exists\nc@d.co,true,x", &[], "reason"),
    ] {
        let columns = find(&sample(text), &[], &[]).unwrap();
        let reason = String::from_utf8(columns.verdicts[0].reason.clone()).unwrap();
        assert_eq!((&*columns.earlier, &*reason), (earlier, name), "{text}");
    }
}

/// A list that was cleaned before, and the chosen columns: the index of the earlier verdict of each, and the names of other verdicts.
#[track_caller]
fn check_verdicts(text: &str, wanted: &[&str], verdicts: &[Option<usize>], others: &[&str]) {
    let chosen: Vec<String> = wanted.iter().map(|&name| name.to_owned()).collect();
    let columns = find(&sample(text), &chosen, &[]).unwrap();
    let found: Vec<_> = columns.earlier_verdicts.iter().map(|it| it.as_ref().map(|it| it.verdict)).collect();
    let named: Vec<&str> = columns.other_verdicts.iter().map(String::as_str).collect();
    assert_eq!((&*found, &*named), (verdicts, others), "{text} {wanted:?}");
}

#[test]
fn a_verdict_is_of_the_column_that_its_name_says() {
    let two = "a,b,deliverable,reason,b_deliverable,b_reason\na@x.co,b@x.co,true,mailbox_exists,false,no_mx";
    check_verdicts(two, &["a", "b"], &[Some(2), Some(4)], &[]);
    check_verdicts(two, &["a"], &[Some(2)], &["b_deliverable"]);
    check_verdicts(two, &[], &[Some(2)], &["b_deliverable"]);
    check_verdicts(two, &["B"], &[Some(4)], &["deliverable"]);
    check_verdicts(two, &["b", "a"], &[Some(4), None], &["deliverable"]);
    let with_times = "a,b,deliverable,reason,rule,b_deliverable,b_reason,b_rule\na@x.co,b@x.co,true,mailbox_exists,x,false,no_mx,";
    check_verdicts(with_times, &["2", "1"], &[Some(5), None], &["deliverable"]);
    // The list has columns of its owner with the names of the verdicts.
    let prefixed = "a,b,reason,mailprobe_deliverable,mailprobe_reason,b_deliverable,b_reason,mailprobe2_b_deliverable,mailprobe2_b_reason\n\
                    a@x.co,b@x.co,x,true,mailbox_exists,yes,y,false,no_mx";
    check_verdicts(prefixed, &["a", "b"], &[Some(3), Some(7)], &[]);
    check_verdicts(prefixed, &["b"], &[Some(7)], &["mailprobe_deliverable"]);
    // One column: its verdict is that of the column that is chosen.
    let one = "a,b,deliverable,reason\na@x.co,b@x.co,true,mailbox_exists";
    check_verdicts(one, &["b"], &[Some(2)], &[]);
    check_verdicts(one, &["b", "a"], &[Some(2), None], &[]);
    // Its rows may show which column it is: each checked address is there.
    let with_gap = "a,b,c,deliverable,reason\na@x.co,b@x.co,,true,mailbox_exists\n,b@y.co,,true,mailbox_exists\nn,,,false,invalid_syntax";
    check_verdicts(with_gap, &["b"], &[Some(3)], &[]);
    check_verdicts(with_gap, &["a"], &[None], &["deliverable"]);
    check_verdicts(with_gap, &["a", "b"], &[None, Some(3)], &[]);
    check_verdicts(&with_gap.replace("a,b,c,deliverable,reason\n", ""), &["1"], &[None], &["4"]);
    let several = with_gap.replace(",,", ",c@x.co,");
    check_verdicts(&several, &["a"], &[None], &["deliverable"]);
    // A gap in each column shows nothing.
    check_verdicts(&with_gap.replace("a@x.co,b@x.co", "a@x.co,"), &["a"], &[Some(3)], &[]);
    // The column is gone, or there are two with its name.
    let gone = "a,b_deliverable,b_reason\na@x.co,false,no_mx";
    check_verdicts(gone, &["a"], &[None], &["b_deliverable"]);
    let same = "a,a,deliverable,reason,a_deliverable,a_reason\na@x.co,b@x.co,true,mailbox_exists,false,no_mx";
    check_verdicts(same, &["1", "2"], &[Some(2), None], &["a_deliverable"]);
    // Without a header, nothing says which verdict is of which column.
    let unnamed = "a@x.co,b@x.co,true,mailbox_exists,false,no_mx";
    check_verdicts(unnamed, &["1", "2"], &[None, None], &["3", "5"]);
    check_verdicts("a@x.co,b@x.co,true,mailbox_exists", &["2"], &[Some(2)], &[]);
}

#[test]
fn an_empty_list_is_one() {
    let empty = Sample { records: Vec::new(), encoding: Encoding::utf_8(false) };
    assert_eq!(find(&empty, &[], &[]), Ok(Columns::single()));
}
