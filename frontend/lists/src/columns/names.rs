//! Names of columns, in the languages of the programs that write lists.

/// Names of columns that hold addresses, in the form of [`normal`], the best first.
const NAMES: &[&str] = &[
    // English, and the names that programs use in all languages.
    "email",
    "emailaddress",
    "mail",
    "mailaddress",
    "emails",
    "primaryemail",
    "primaryemailaddress",
    "email1value",
    "email1",
    "emailaddress1",
    "emailaddresses",
    "emailid",
    "contactemail",
    "customeremail",
    "personemail",
    "personemailwork",
    "useremail",
    "subscriberemail",
    "workemail",
    "emailwork",
    "businessemail",
    "smtpaddress",
    "primarysmtpaddress",
    "eaddress",
    "smtpadr",
    // German
    "emailadresse",
    "emailadressen",
    "mailadresse",
    "epostadresse",
    "elektronischepost",
    "emailkontakt",
    // French
    "courriel",
    "adresseemail",
    "adressemail",
    "adressecourriel",
    "adresseelectronique",
    "adresseélectronique",
    "adressedemessagerie",
    "adressedecourriel",
    "mèl",
    "mél",
    // Spanish, Catalan, Galician
    "correoelectrónico",
    "correoelectronico",
    "correo",
    "direccióndecorreoelectrónico",
    "direcciondecorreoelectronico",
    "direccióndecorreo",
    "direccióndeemail",
    "correuelectrònic",
    "correoe",
    // Portuguese
    "correioeletrônico",
    "correioeletrónico",
    "correioelectrónico",
    "correioeletronico",
    "endereçodeemail",
    "enderecodeemail",
    "endereçodecorreioeletrônico",
    // Italian, Romanian
    "postaelettronica",
    "indirizzoemail",
    "indirizzomail",
    "indirizzodipostaelettronica",
    "indirizzodiposta",
    "adresădeemail",
    "adresadeemail",
    "adresăemail",
    "adresaemail",
    // Dutch
    "emailadres",
    "mailadres",
    "epostadres",
    // Nordic languages
    "epost",
    "epostadress",
    "mejl",
    "mejladress",
    "sähköposti",
    "sähköpostiosoite",
    "netfang",
    "tölvupóstur",
    "mailadresser",
    // Polish, Czech, Slovak, Hungarian, Croatian, Slovenian
    "adresemail",
    "adrespocztyelektronicznej",
    "pocztaelektroniczna",
    "emailováadresa",
    "emailovaadresa",
    "elektronickápošta",
    "emailcím",
    "emailcim",
    "drótposta",
    "adresaepošte",
    "epošta",
    "eposta",
    "elektronskapošta",
    "epoštninaslov",
    // Baltic languages
    "elpaštas",
    "elpasts",
    "epastaadrese",
    "meiliaadress",
    // Turkish
    "epostaadresi",
    "mailadresi",
    "elektronikposta",
    // Greek
    "ηλεκτρονικόταχυδρομείο",
    "διεύθυνσηemail",
    "ηλεκτρονικήδιεύθυνση",
    // Russian, Ukrainian, Bulgarian
    "элпочта",
    "электроннаяпочта",
    "адресэлектроннойпочты",
    "эладрес",
    "электронныйадрес",
    "почта",
    "емейл",
    "имейл",
    "электроннаяпочтаemail",
    "електроннапошта",
    "елпошта",
    "имейладрес",
    // Chinese
    "电子邮件",
    "电子邮箱",
    "电子邮件地址",
    "邮箱",
    "邮箱地址",
    "邮件地址",
    "邮件",
    "電子郵件",
    "電子郵件地址",
    "電子信箱",
    "電郵",
    "電郵地址",
    "信箱",
    // Japanese
    "メールアドレス",
    "電子メールアドレス",
    "電子メール",
    "eメール",
    "eメールアドレス",
    "メール",
    "メアド",
    // Korean
    "이메일",
    "이메일주소",
    "전자메일",
    "전자메일주소",
    "전자우편",
    "메일",
    // Arabic, Hebrew, Persian, Hindi, Thai, Vietnamese, Indonesian
    "البريدالإلكتروني",
    "البريدالالكتروني",
    "بريدإلكتروني",
    "עריתאימייל",
    "כתובתאימייל",
    "אימייל",
    "דואל",
    "דוארלקטרוני",
    "דואראלקטרוני",
    "ایمیل",
    "ईमेल",
    "อีเมล",
    "อีเมล์",
    "thưđiệntử",
    "địachỉemail",
    "surel",
    "alamatemail",
];
/// A name that is also used for streets: the content decides.
const WEAK_NAME: &str = "address";

/// Other names of columns, in the form of [`normal`]. They show that a row is a header.
const OTHER_NAMES: &[&str] = &[
    "id",
    "nr",
    "no",
    "name",
    "firstname",
    "lastname",
    "fullname",
    "displayname",
    "givenname",
    "familyname",
    "surname",
    "nickname",
    "title",
    "company",
    "organization",
    "organisation",
    "phone",
    "phonenumber",
    "telephone",
    "mobile",
    "fax",
    "city",
    "country",
    "state",
    "street",
    "zip",
    "zipcode",
    "postcode",
    "postalcode",
    "note",
    "notes",
    "comment",
    "comments",
    "date",
    "created",
    "createdat",
    "status",
    "type",
    "category",
    "tags",
    "group",
    "gender",
    "birthday",
    "website",
    "url",
    "address",
    "contact",
    "customer",
    "vorname",
    "nachname",
    "firma",
    "anrede",
    "titel",
    "telefon",
    "ort",
    "plz",
    "strasse",
    "straße",
    "land",
    "bemerkung",
    "datum",
    "kundennummer",
    "nom",
    "prénom",
    "prenom",
    "société",
    "téléphone",
    "ville",
    "nombre",
    "apellido",
    "apellidos",
    "empresa",
    "teléfono",
    "telefono",
    "ciudad",
    "nome",
    "cognome",
    "sobrenome",
    "azienda",
    "cidade",
    "naam",
    "voornaam",
    "achternaam",
    "bedrijf",
    "namn",
    "navn",
    "imię",
    "nazwisko",
    "имя",
    "фамилия",
    "телефон",
    "город",
    "компания",
    "фио",
    "姓名",
    "名前",
    "氏名",
    "会社名",
    "電話番号",
    "电话",
    "公司",
    "이름",
    "전화번호",
    "회사",
];

/// A column name in lower case, without separators and invisible characters: `E-Mail Address:` is `emailaddress`.
pub(crate) fn normal(name: &str) -> String {
    let letters = name.chars().filter(|c| c.is_alphanumeric() || is_combining(*c));
    letters.flat_map(char::to_lowercase).collect()
}

/// Vowel signs of Indian and Thai scripts are no letters of their own.
fn is_combining(c: char) -> bool {
    matches!(c, '\u{900}'..='\u{d7f}' | '\u{e00}'..='\u{e7f}')
}

/// The rank of a usual name of columns of addresses, from 0.
pub(super) fn rank(name: &str) -> Option<usize> {
    let name = normal(name);
    NAMES.iter().position(|known| *known == name)
}

/// Whether this is the name that is also used for streets.
pub(super) fn is_weak(name: &str) -> bool {
    normal(name) == WEAK_NAME
}

/// Whether this is a usual name for a column of addresses.
pub(crate) fn is_usual(name: &str) -> bool {
    is_weak(name) || rank(name).is_some()
}

/// Whether this is a usual name for any column.
pub(super) fn is_common(name: &str) -> bool {
    is_usual(name) || OTHER_NAMES.contains(&normal(name).as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_many_languages_are_known() {
        for name in [
            "email",
            "E-Mail",
            "E-mail:",
            "e-mail address",
            "Email_Address",
            "*Email",
            "E-Mail-Adresse",
            "Correo electrónico",
            "Adresse e-mail",
            "Adresse électronique",
            "メールアドレス",
            "Эл. почта",
            "E-mail 1 - Value",
            "ईमेल",
            "อีเมล",
            "\u{feff}Email\u{200b}",
            "דוא\"ל",
        ] {
            assert!(is_usual(name), "{name}");
        }
        for name in ["", "Email Opt Out", "E-mail 1 - Type", "name", "-"] {
            assert!(!is_usual(name), "{name}");
        }
    }

    #[test]
    fn the_table_has_normal_forms() {
        for name in NAMES.iter().chain(OTHER_NAMES) {
            assert_eq!(normal(name), *name);
        }
    }
}
